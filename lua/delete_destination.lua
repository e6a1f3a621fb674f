#!lua flags=allow-oom
-- delete_destination: begins the removal of a destination. From then on, scripts refuse to ingest, claim or
-- release.
--
-- KEYS:
--   [1] destination      reseq:{p07}:d:<dest>
--   [2] active_builtin   reseq:{p07}:active:builtin
--   [3] active_worker    reseq:{p07}:active:worker
--   [4] releasable       reseq:{p07}:releasable
--   [5] dead             reseq:{p07}:d:<dest>:dead-letters
--   [6] epoch            reseq:{p07}:epoch
--   [7] withdrawing      reseq:{p07}:withdrawing
-- ARGV:
--   [1] destination  [2] '1': even with pending messages or dead letters; '2': the same, but only to complete a
--   removal that has begun; '0': neither
-- Returns: {version, pending messages}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, WRONG_STATE
-- Sent again, it continues: no call number is needed.
-- include: schema, clock, expect

check_schema(KEYS[6])
-- If the key is not a hash, the number of pending messages is unknown; the removal must work all the same.
local kind = redis.call('TYPE', KEYS[1])['ok']
if ARGV[2] == '1' and kind ~= 'hash' and kind ~= 'none' then
  expect('ZCARD', KEYS[2], KEYS[3], KEYS[4], KEYS[7])
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'version', text(now_ms()), 'last', '1')
end
local known = redis.call('HMGET', KEYS[1], 'version', 'last', 'settled', 'deleted')
if not known[1] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if ARGV[2] == '2' and not known[4] then
  return redis.error_reply('WRONG_STATE the destination is not being removed')
end
local pending = (tonumber(known[2]) or 0) - (tonumber(known[3]) or 0)
if pending > 0 and ARGV[2] == '0' then
  return redis.error_reply(string.format('WRONG_STATE %.0f messages are pending', pending))
end
local dead = ARGV[2] ~= '0' and 0 or redis.call('ZCARD', KEYS[5])
if dead > 0 then
  return redis.error_reply(string.format('WRONG_STATE there are %.0f dead letters', dead))
end
expect('ZCARD', KEYS[2], KEYS[3], KEYS[4], KEYS[7])
redis.call('HSET', KEYS[1], 'deleted', '1')
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[7], ARGV[1])
return {known[1], pending}
