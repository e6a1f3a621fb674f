#!lua flags=allow-oom
-- cancel_operation: asks the process that runs a bulk operation to stop it.
--
-- Returns: the state of the operation (JSON); nil if the operation does not exist (any more)
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema

check_schema(key_epoch)
local state = redis.call('HGET', key_operation, 'state')
if not state then return false end
redis.call('HSET', key_operation, 'cancelled', '1')
return state
