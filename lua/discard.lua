#!lua flags=allow-oom
-- discard: dead letters are thrown away, by a person's word.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] dead          reseq:{p07}:d:<dest>:dead
--   [3] letters       reseq:{p07}:d:<dest>:letters
--   [4] epoch         reseq:{p07}:epoch
-- ARGV:
--   [1] definition version; then the sequences
-- Returns: how many there were
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again it finds none of them: no call number is needed.
-- include: schema, expect

check_schema(KEYS[4])
local known = redis.call('HMGET', KEYS[1], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', KEYS[3])
local discarded = redis.call('ZREM', KEYS[2], unpack(ARGV, 2))
redis.call('HDEL', KEYS[3], unpack(ARGV, 2))
if discarded > 0 then redis.call('HINCRBY', KEYS[1], 'discarded', discarded) end
return discarded
