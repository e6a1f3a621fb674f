#!lua flags=allow-oom
-- note_operation: stores the progress of a bulk operation, such as a purge. Only the process that runs the operation
-- calls this script.
--
-- Returns: 1 if somebody has cancelled the operation, else 0
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it stores the same progress: no call number is needed.
-- include: schema, clock

check_schema(key_epoch)
local version, deleted = unpack(redis.call('HMGET', key_destination, 'version', 'deleted'))
if not version or deleted then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
-- These keys only show the progress. If one of them has the wrong type, a repair must still be able to begin.
local function remove_unless(kind, key)
  local found = redis.call('TYPE', key)['ok']
  if found ~= kind and found ~= 'none' then redis.call('UNLINK', key) end
end
remove_unless('hash', key_operation)
remove_unless('zset', key_operations)
local cancelled = redis.call('HGET', key_operation, 'cancelled')

local now, kept = now_ms(), tonumber(kept_ms)
redis.call('HSET', key_operation, 'state', state)
redis.call('PEXPIRE', key_operation, text(kept))
redis.call('ZADD', key_operations, 'NX', text(now), operation)
redis.call('ZREMRANGEBYSCORE', key_operations, '-inf', text(now - kept))
redis.call('ZREMRANGEBYRANK', key_operations, '0', text(-1 - tonumber(most)))
return cancelled and 1 or 0
