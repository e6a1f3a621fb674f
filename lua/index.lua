#!lua flags=allow-oom
-- index: writes a destination's definition, or its removal, to the index that all pods read.
--
-- KEYS:
--   [1] destinations   reseq:{index}:destinations
--   [2] changes        reseq:{index}:destinations:changes
--   [3] removed        reseq:{index}:destinations:removed
-- ARGV:
--   [1] destination  [2] version (a removal has the version that it removed)  [3] '<version> <what is paused>
--   <definition>', or '' for a removal  [4] the channel reseq:wake:definitions; not a key, because the keys of
--   one script share a slot on a cluster  [5] how many removed names are remembered
-- Returns: 1 if this changed anything
-- Errors: none. An older version than the stored one changes nothing: no call number is needed.
-- include: changes, wake

local noted = redis.call('HGET', KEYS[1], ARGV[1])
local noted_version = noted and tonumber(string.match(noted, '^%d+')) or 0
local version = tonumber(ARGV[2])
local is_end = ARGV[3] == ''
if is_end and (not noted or noted_version > version) then return 0 end
if not is_end and (noted_version > version or noted == ARGV[3]) then return 0 end
note_change(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[5], function()
  if not is_end then return ARGV[3] end
end)
wake_all(ARGV[4], ARGV[1])
return 1
