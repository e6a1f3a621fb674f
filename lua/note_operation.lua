#!lua flags=allow-oom
-- note_operation: notes the progress of a bulk operation, such as a purge. Only the process that runs the
-- operation calls it.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] epoch         reseq:{p07}:epoch
--   [3] operation     reseq:{p07}:d:<dest>:operation:<id>
--   [4] operations    reseq:{p07}:operations
-- ARGV:
--   [1] '<dest>/<id>'  [2] its state (JSON)  [3] how long it is kept, in ms  [4] the most operations of the
--   partition that are kept
-- Returns: 1 if somebody has cancelled it, else 0
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it notes the same: no call number is needed.
-- include: schema, clock

check_schema(KEYS[2])
local version, deleted = unpack(redis.call('HMGET', KEYS[1], 'version', 'deleted'))
if not version or deleted then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
-- These keys only tell what goes on. One of a wrong type must not keep a repair from beginning.
local function remove_unless(kind, key)
  local found = redis.call('TYPE', key)['ok']
  if found ~= kind and found ~= 'none' then redis.call('UNLINK', key) end
end
remove_unless('hash', KEYS[3])
remove_unless('zset', KEYS[4])
local cancelled = redis.call('HGET', KEYS[3], 'cancelled')

local now, kept = now_ms(), tonumber(ARGV[3])
redis.call('HSET', KEYS[3], 'state', ARGV[2])
redis.call('PEXPIRE', KEYS[3], text(kept))
redis.call('ZADD', KEYS[4], 'NX', text(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', text(now - kept))
redis.call('ZREMRANGEBYRANK', KEYS[4], '0', text(-1 - tonumber(ARGV[4])))
return cancelled and 1 or 0
