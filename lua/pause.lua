#!lua flags=allow-oom
-- pause: a person pauses or resumes what a destination takes in, or what is sent to it. The version of
-- the definition goes up, so that every script refuses whoever does not know yet.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
-- ARGV:
--   [1] '' or 'ingest' or 'delivery' or 'ingest,delivery': what is paused from here on
-- Returns: {version, definition (JSON), 1 if this changed anything}
-- Errors: UNKNOWN_DESTINATION
-- Sent again it changes nothing: no call number is needed.
-- include: clock

local known = redis.call('HMGET', KEYS[1], 'version', 'deleted', 'definition', 'paused')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if (known[4] or '') == ARGV[1] then return {known[1], known[3], 0} end
local version = text(math.max(tonumber(known[1]) + 1, now_ms()))
redis.call('HSET', KEYS[1], 'version', version, 'paused', ARGV[1])
return {version, known[3], 1}
