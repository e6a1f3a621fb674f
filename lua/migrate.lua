#!lua flags=allow-oom
-- migrate: raises the schema of a partition. From then on, pods write its records in that schema, and every script
-- refuses pods that do not know the schema.
--
-- Returns: the schema that the partition had before
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema

local before = check_schema(key_epoch)
if tonumber(before) < tonumber(schema) then redis.call('HSET', key_epoch, 'schema', schema) end
return before
