#!lua flags=allow-oom
-- topic: makes a topic, changes it, or removes it, and tells all pods.
--
-- KEYS:
--   [1] topics   reseq:topics
-- ARGV:
--   [1] topic  [2] its definition (JSON), or '' for its end  [3] the channel reseq:wake:definitions,
--   which is no key: on a cluster, keys of one script share a slot
-- Returns: 1 if it was there before
-- Errors: none
-- Sent again it changes nothing: no call number is needed.
-- include: wake

local noted = redis.call('HGET', KEYS[1], ARGV[1])
local definition = string.match(noted or '', '^%d+ (.*)$')
if not noted and ARGV[2] == '' then return 0 end
if definition == ARGV[2] then return 1 end

-- The revision stands beside the names; '*' can be none. A topic's version is the revision that
-- made it what it is.
local revision = string.format('%.0f', redis.call('HINCRBY', KEYS[1], '*', 1))
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], revision .. ' ' .. ARGV[2])
end
wake_all(ARGV[3], ARGV[1])
return noted and 1 or 0
