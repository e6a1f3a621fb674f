#!lua flags=allow-oom
-- index: writes a destination's definition, or its removal, to the index that all pods read.
--
-- Returns: 1 if this changed anything
-- Errors: none. An older version than the stored one changes nothing: no call number is needed.
-- include: changes, wake

local noted = redis.call('HGET', key_destinations, destination)
local noted_version = noted and tonumber(string.match(noted, '^%d+')) or 0
version = tonumber(version)
local is_end = content == ''
if is_end and (not noted or noted_version > version) then return 0 end
if not is_end and (noted_version > version or noted == content) then return 0 end
note_change(key_destinations, key_changes, key_removed, destination, removed_max, function()
  if not is_end then return content end
end)
wake_all(channel, destination)
return 1
