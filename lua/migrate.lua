#!lua flags=allow-oom
-- migrate: raises the schema of a partition. From then on, its records are written in that schema, and every
-- script refuses pods that do not know it.
--
-- KEYS:
--   [1] epoch   reseq:{p07}:epoch
-- ARGV:
--   [1] schema
-- Returns: the schema that the partition had before
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema

local schema = check_schema(KEYS[1])
if tonumber(schema) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'schema', ARGV[1]) end
return schema
