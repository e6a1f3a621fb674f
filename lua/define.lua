#!lua
-- define: creates a destination, or changes its definition, and keeps the last versions with their authors. The
-- partition's copy of the definition is authoritative; the index of all destinations is updated afterwards.
--
-- Returns: {version, 1 if this changed anything, 1 if it was created, which parts are paused as in pause.lua, the
--   epoch in which it was created}
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE, BEING_REMOVED, WRONG_VERSION <version, 0: it does not exist>,
--   NO_MEMORY (for another destination)
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, expect

if IS_FULL and redis.call('HEXISTS', key_destination, 'version') == 0 then
  return redis.error_reply('NO_MEMORY Redis has no memory left for another destination')
end
local VERSIONS_BYTES_MAX = 1048576
local now = now_ms()
local _, _, _, birth = current_epoch(key_epoch, now, seen_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'definition', 'ordering', 'last', 'settled',
  'deleted', 'processing', 'paused', 'born', 'delivery', 'versions', 'shards')
if definition[6] then return redis.error_reply('BEING_REMOVED the destination is being removed') end
if definition[2] and (definition[2] == new_definition or definition[2] == same_definition) then
  -- The version stays, because pods do not need to know of this change.
  if definition[2] ~= new_definition then redis.call('HSET', key_destination, 'definition', new_definition) end
  if file_forms ~= '' then redis.call('HSET', key_destination, 'file_forms', file_forms) end
  return {definition[1], 0, 0, definition[8] or '', definition[9] or '0'}
end
if replaces ~= '' and replaces ~= (definition[1] or '0') then
  return redis.error_reply('WRONG_VERSION ' .. (definition[1] or '0'))
end
local pending = (tonumber(definition[4]) or 0) - (tonumber(definition[5]) or 0)
if definition[3] and definition[3] ~= ordering and pending > 0 then
  return redis.error_reply('WRONG_STATE ordering cannot change while messages are pending')
end
if definition[7] and definition[7] ~= processing and pending > 0 then
  return redis.error_reply('WRONG_STATE processing cannot change while messages are pending')
end
if definition[1] and (definition[12] or '1') ~= shards then
  return redis.error_reply('WRONG_STATE shards cannot change: remove the destination and create it again')
end
-- A consumer or a receiver may hold messages. Nobody else may get these messages meanwhile.
local was = definition[10]
if was and was ~= delivery and (was == 'pull' or delivery == 'pull') and pending > 0 then
  return redis.error_reply('WRONG_STATE delivery.kind cannot change from or to pull while messages are pending')
end

expect('ZCARD', key_active_builtin, key_active_worker)

-- If a destination was removed and is created again, it must not reuse an old version, whatever the clock says.
local born, before = definition[9] or '0', tonumber(definition[1])
if not before then
  born = text(birth)
  before = math.max(tonumber(redis.call('HGET', key_epoch, 'removed_version')) or 0, birth)
end
local version = text(math.max(before + 1, now))
-- The versions, newest first, one per line.
local kept, upto = definition[11] or '', 0
for _ = 2, versions_max do
  local line = string.find(kept, '\n', upto + 1, true)
  if not line or line > VERSIONS_BYTES_MAX then break end
  upto = line
end
kept = version .. ' ' .. text(now) .. ' ' .. note .. '\n' .. string.sub(kept, 1, upto)
redis.call('HSET', key_destination, 'version', version, 'definition', new_definition, 'ordering', ordering,
  'claimers', claimers, 'processing', processing, 'stalls_max', stalls_max, 'delivery', delivery, 'versions', kept)
if shards ~= '1' then redis.call('HSET', key_destination, 'shards', shards) end
if file_forms ~= '' then redis.call('HSET', key_destination, 'file_forms', file_forms) end
if not definition[1] then redis.call('HSET', key_destination, 'born', born) end
if definition[3] ~= ordering then
  -- The list contains at most withdrawn messages, and its key may now need another type. Redis does not know the
  -- ordering keys of earlier lanes; but if the destination never had a message, there are no earlier keys.
  redis.call('UNLINK', key_waiting, key_withdrawn, key_previous)
  redis.call('HDEL', key_destination, 'withdrawn', 'all_keys_known')
  if ordering == 'key' and not definition[4] then redis.call('HSET', key_destination, 'all_keys_known', '1') end
end
if ids_max == '0' then redis.call('UNLINK', key_ids) end
local mine, other = key_active_builtin, key_active_worker
if claimers == 'worker' then mine, other = other, mine end
redis.call('ZREM', other, destination)
if redis.call('EXISTS', key_waiting) == 1 then redis.call('ZADD', mine, '0', destination) end
return {version, 1, definition[1] and 0 or 1, definition[8] or '', born}
