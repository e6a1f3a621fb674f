-- The parts that release_fast and release_each_fast share.

-- Returns an error if the caller may not release, or if the destination needs the full release. Otherwise returns nil
-- and the fields of the destination: 'halted_ready', 'settled', 'ready', 'bytes', 'delivered'.
local function begin_release(key_epoch, key_owner, key_destination, now, seen_epoch, owner_epoch, token, version)
  local epoch, takeover_wait = current_epoch(key_epoch, now, seen_epoch)
  if epoch ~= owner_epoch + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
  if takeover_wait > 0 then return redis.error_reply('TAKEOVER_WAIT ' .. text(takeover_wait)) end
  if not owns(key_owner, token) then return redis.error_reply('NOT_OWNER another owns the partition') end
  local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'withdrawals', 'delivery',
    'halted_ready', 'settled', 'ready', 'bytes', 'delivered')
  if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
  if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
  if (definition[3] or '0') ~= '0' or definition[4] == 'pull' then
    return redis.error_reply('NOT_FAST there are consumers or withdrawals')
  end
  return nil, {unpack(definition, 5, 9)}
end

-- Adds the entries of the messages that left to the log. Returns the number of entries above the limit. Returns nil,
-- and adds nothing, if `log` does not match the messages, if too many old entries must leave the log, or if old
-- entries may have stored bodies.
local function add_to_log(key_log, key_log_order, key_bodies, log, log_max, sequences, excess_max)
  if log_max == '0' then return #log == 0 and redis.call('LLEN', key_log_order) == 0 and 0 or nil end
  if #log ~= #sequences then return nil end
  local entries = {}
  for i, one in ipairs(log) do
    if one.sequence ~= sequences[i] then return nil end
    entries[2 * i - 1], entries[2 * i] = one.sequence, one.entry
  end
  local excess = redis.call('LLEN', key_log_order) + #sequences - log_max
  if excess > 0 and (excess > excess_max or redis.call('HLEN', key_bodies) > 0) then return nil end
  redis.call('RPUSH', key_log_order, unpack(sequences))
  redis.call('HSET', key_log, unpack(entries))
  return excess
end

-- Removes the records of messages that left, and the oldest `excess` entries of the log. Updates the counters for
-- these messages. `definition` holds the fields from begin_release.
local function forget_settled(key_destination, key_messages, key_log, key_log_order, definition, sequences, bytes, excess)
  redis.call('HDEL', key_messages, unpack(sequences))
  if excess > 0 then redis.call('HDEL', key_log, unpack(redis.call('LPOP', key_log_order, excess))) end
  local count = #sequences
  redis.call('HSET', key_destination, 'settled', counted(definition[2], count), 'ready', counted(definition[3], -count),
    'bytes', counted(definition[4], -bytes), 'delivered', counted(definition[5], count))
end
