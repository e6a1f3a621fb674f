#!lua flags=allow-oom
-- repair_waiting: stores the waiting messages of a paused destination again, in parts. The first part removes the old
-- list or set.
--
-- Returns: for the first part: 1 if it added the missing hint of the old messages, otherwise 0; for another part: how
--   many messages wait now
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, the first part begins the work again. The caller must not repeat another part, but must begin again.
-- include: schema, clock, wake, waiting

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local place = {
  destination = destination, ordering = ordering, hash = key_destination, waiting = key_waiting,
  messages = key_messages, builtin = key_active_builtin, worker = key_active_worker, wake = key_wake_waiting,
}
if is_first == '1' then
  local active = active_of(place)
  local lacks_hint = redis.call('EXISTS', key_waiting) == 1 and not redis.call('ZSCORE', active, destination)
    and not redis.call('ZSCORE', key_delayed, destination .. '/rate')
  if lacks_hint then redis.call('ZADD', active, '0', destination) end
  redis.call('UNLINK', key_waiting, key_withdrawn)
  redis.call('HDEL', key_destination, 'withdrawn')
  return lacks_hint and 1 or 0
end
if ordering == 'none' then
  to_priorities(place, sequences)
  return redis.call('ZCARD', key_waiting)
end
local length = redis.call('RPUSH', key_waiting, unpack(sequences))
tell_claimers(place, length, #sequences)
return length
