#!lua flags=allow-oom
-- cancel_operation: asks the process that runs a bulk operation to stop it.
--
-- KEYS:
--   [1] epoch       reseq:{p07}:epoch
--   [2] operation   reseq:{p07}:d:<dest>:operation:<id>
-- ARGV: none
-- Returns: its state (JSON); nil if there is no such operation (any more)
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema

check_schema(KEYS[1])
local state = redis.call('HGET', KEYS[2], 'state')
if not state then return false end
redis.call('HSET', KEYS[2], 'cancelled', '1')
return state
