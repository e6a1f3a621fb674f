#!lua flags=allow-oom
-- index: notes a destination's definition, or its end, where all pods look for it.
--
-- KEYS:
--   [1] destinations   reseq:destinations
-- ARGV:
--   [1] destination  [2] version (an end has the version it ended)  [3] '<version> <definition>', or
--   '' for an end  [4] the channel reseq:wake:definitions, which is no key: on a cluster, keys of
--   one script share a slot
-- Returns: 1 if this was news
-- Errors: none. Older news than what is noted changes nothing: no call number is needed.
-- include: wake

local noted = redis.call('HGET', KEYS[1], ARGV[1])
local noted_version = noted and tonumber(string.match(noted, '^%d+')) or 0
local version = tonumber(ARGV[2])
if ARGV[3] == '' then
  if not noted or noted_version > version then return 0 end
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  if noted_version >= version then return 0 end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
-- The revision stands beside the names; '*' can be none.
redis.call('HINCRBY', KEYS[1], '*', 1)
wake_all(ARGV[4], ARGV[1])
return 1
