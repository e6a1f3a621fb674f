#!lua flags=allow-oom
-- discard: removes dead letters on an operator's request.
--
-- Returns: how many of the dead letters existed
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds none of them: no call number is needed.
-- include: schema, bodies, dead_letters

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local scores, letters = redis.call('ZMSCORE', key_dead_letters, unpack(sequences)), {}
for i, sequence in ipairs(sequences) do
  if scores[i] then letters[#letters + 1] = sequence end
end
if #letters == 0 then return 0 end
local discarded = remove_letters(key_dead_letters, key_dead_letter_messages, key_dead_lettered_at, key_bodies, letters)
redis.call('HINCRBY', key_destination, 'discarded', discarded)
return discarded
