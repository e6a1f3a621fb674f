#!lua flags=allow-oom
-- expire: removes the oldest dead letters of a destination if they exceed its age limit.
--
-- Returns: how many were removed
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it removes the next dead letters if they are too old as well: no call number is needed.
-- include: schema, clock, bodies, dead_letters

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local last = text(now_ms() - tonumber(age_max))
local letters = redis.call('ZRANGEBYSCORE', key_dead_lettered_at, '-inf', last, 'LIMIT', '0', most)
if #letters == 0 then return 0 end
remove_letters(key_dead_letters, key_dead_letter_messages, key_dead_lettered_at, key_bodies, letters)
redis.call('HINCRBY', key_destination, 'expired', #letters)
return #letters
