#!lua flags=allow-oom
-- discard: removes dead letters on an operator's request.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] dead          reseq:{p07}:d:<dest>:dead-letters
--   [3] letters       reseq:{p07}:d:<dest>:dead-letter-messages
--   [4] epoch         reseq:{p07}:epoch
--   [5] bodies        reseq:{p07}:d:<dest>:bodies
--   [6] dead_at       reseq:{p07}:d:<dest>:dead-lettered-at
-- ARGV:
--   [1] definition version; then the sequences
-- Returns: how many there were
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds none of them: no call number is needed.
-- include: schema, expect, bodies, dead_letters

check_schema(KEYS[4])
local known = redis.call('HMGET', KEYS[1], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', KEYS[3], KEYS[5])
expect('ZCARD', KEYS[6])
local sequences = {unpack(ARGV, 2)}
local scores, letters = redis.call('ZMSCORE', KEYS[2], unpack(sequences)), {}
for i, sequence in ipairs(sequences) do
  if scores[i] then letters[#letters + 1] = sequence end
end
if #letters == 0 then return 0 end
local discarded = remove_letters(KEYS[2], KEYS[3], KEYS[6], KEYS[5], letters)
redis.call('HINCRBY', KEYS[1], 'discarded', discarded)
return discarded
