#!lua flags=allow-oom
-- expire: removes the oldest dead letters of a destination if they exceed its age limit.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] dead          reseq:{p07}:d:<dest>:dead-letters
--   [3] letters       reseq:{p07}:d:<dest>:dead-letter-messages
--   [4] epoch         reseq:{p07}:epoch
--   [5] bodies        reseq:{p07}:d:<dest>:bodies
--   [6] dead_at       reseq:{p07}:d:<dest>:dead-lettered-at
-- ARGV:
--   [1] definition version  [2] age limit of a dead letter, ms  [3] most dead letters per call
-- Returns: how many were removed
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it removes the next ones, if they are too old as well: no call number is needed.
-- include: schema, clock, expect, bodies, dead_letters

check_schema(KEYS[4])
local known = redis.call('HMGET', KEYS[1], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', KEYS[3], KEYS[5])
expect('ZCARD', KEYS[2])
local last = text(now_ms() - tonumber(ARGV[2]))
local letters = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', last, 'LIMIT', '0', ARGV[3])
if #letters == 0 then return 0 end
remove_letters(KEYS[2], KEYS[3], KEYS[6], KEYS[5], letters)
redis.call('HINCRBY', KEYS[1], 'expired', #letters)
return #letters
