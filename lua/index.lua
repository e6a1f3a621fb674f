#!lua flags=allow-oom
-- index: writes a destination's definition, or its removal, to the index that all pods read. Redis keeps the last
-- definitions of removed destinations for some time.
--
-- Returns: 1 if this changed anything
-- Errors: none. An older version than the stored one changes nothing: no call number is needed.
-- include: changes, clock, wake

local noted = redis.call('HGET', key_destinations, destination)
local noted_version = noted and tonumber(string.match(noted, '^%d+')) or 0
version = tonumber(version)
local is_end = content == ''
if is_end and (not noted or noted_version > version) then return 0 end
if not is_end and (noted_version > version or noted == content) then return 0 end
note_change(key_destinations, key_changes, key_removed, destination, removed_max, function()
  if not is_end then return content end
end)
if is_end and removed_note ~= '' then
  local now, oldest, since = now_ms(), nil, nil
  redis.call('HSET', key_removed_definitions, destination,
    text(noted_version) .. ' ' .. text(now) .. ' ' .. removed_note)
  redis.call('PEXPIRE', key_removed_definitions, kept_ms)
  -- There are few entries, so one call returns them all.
  local kept = redis.call('HSCAN', key_removed_definitions, '0', 'COUNT', '1000')[2]
  for i = 1, #kept, 2 do
    local at = tonumber(string.match(kept[i + 1], '^%d+ (%d+)')) or 0
    if at + kept_ms < now then
      redis.call('HDEL', key_removed_definitions, kept[i])
    elseif not since or at < since then
      oldest, since = kept[i], at
    end
  end
  if redis.call('HLEN', key_removed_definitions) > definitions_max + 0 then
    redis.call('HDEL', key_removed_definitions, oldest)
  end
end
wake_all(channel, destination)
return 1
