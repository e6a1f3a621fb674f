#!lua flags=allow-oom
-- pause: pauses or resumes ingest, processing or delivery of a destination on an operator's request. Raises the
-- version of the definition, so that every script refuses pods that do not know of the change yet.
--
-- Returns: {version, definition (JSON), 1 if this changed anything, which parts are paused now, such as
--   'ingest,delivery', the epoch in which the destination was created}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'definition', 'paused', 'born')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
local wanted, paused = {ingest = ingest, processing = processing, delivery = delivery}, {}
for _, name in ipairs({'ingest', 'processing', 'delivery'}) do
  local is_paused = string.find(definition[4] or '', name, 1, true) ~= nil
  if wanted[name] ~= '' then is_paused = wanted[name] == '1' end
  if is_paused then paused[#paused + 1] = name end
end
paused = table.concat(paused, ',')
if (definition[4] or '') == paused then return {definition[1], definition[3], 0, paused, definition[5] or '0'} end
local version = text(math.max(tonumber(definition[1]) + 1, now_ms()))
redis.call('HSET', key_destination, 'version', version, 'paused', paused)
return {version, definition[3], 1, paused, definition[5] or '0'}
