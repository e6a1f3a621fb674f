-- Messages that leave without delivery: dropped, dead-lettered or cancelled. Each becomes a tombstone, which holds
-- the message's position until its lane has passed it. `place` is as in serial.lua, and also has `processing`,
-- `delivery` (its kind), and the keys that have these names in withdraw.lua.

-- Returns a record as a tombstone: marked with `how`, and without its body. If the record is unreadable, keeps only
-- the accounted bytes, if it can find them.
local function tombstone_of(how, record)
  local _, mark_end = string.find(record, '^B%d+;')
  local begin = (mark_end or 0) + 1
  local _, prefix_end = string.find(record, '^[PN]%d*;', begin)
  local length, header_at = string.match(record, KNOWN_FORMAT .. '%d+,(%d+);()', (prefix_end or begin - 1) + 1)
  if not length then
    local accounted_bytes = string.match(record, '^%d(%d+),', (prefix_end or begin - 1) + 1)
    return 'T' .. how .. 'D' .. (accounted_bytes or '0') .. ';'
  end
  return 'T' .. how .. string.sub(record, begin, header_at + tonumber(length) - 1)
end

-- Returns how many more dead letters the destination may have. `most` is the limit; 0: no limit.
local function room_for_letters(letters, most)
  most = tonumber(most)
  return most == 0 and math.huge or most - redis.call('ZCARD', letters)
end

local function write_letter(place, one, now)
  local head = table.concat({text(now), one.stage, #one.reason, #one.attempts}, ' ')
  local letter = head .. ';' .. one.reason .. one.attempts .. one.record
  redis.call('HSET', place.dead_letter_messages, one.sequence, letter)
  redis.call('ZADD', place.dead_letters, one.sequence, one.sequence)
  redis.call('ZADD', place.dead_lettered_at, text(now), one.sequence)
end

-- Makes a message of this lane leave. `one` is {sequence, record, how (d: dropped, s: dead-lettered, c: cancelled),
-- reason, stage, attempts (as stored), state}. The caller has already removed the message from the set or list of its
-- state.
local function leave(place, lane, one, now)
  local sequence = one.sequence
  if one.how == 's' then
    write_letter(place, one, now)
  elseif bytes_out_of_line(one.record) > 0 then
    redis.call('HDEL', place.bodies, sequence)
  end
  redis.call('HSET', place.messages, sequence, tombstone_of(one.how, one.record))
  redis.call('HDEL', place.attempts, sequence)
  forget_withdrawals(place.hash, place.withdrawals, place.withdrawing, place.destination, sequence)
  if one.state ~= 'ready' then
    redis.call('ZADD', lane.ready, sequence, sequence)
    redis.call('HINCRBY', place.hash, 'ready', 1)
    if place.processing == 'serial' and one.state ~= 'awaiting_turn' then
      advance(place, lane.in_progress, lane.ready, now)
    end
  end
  if not is_head(place.ordering, lane.in_progress, sequence) then return end
  local key = place.ordering == 'none' and sequence or lane.key
  may_leave(place.releasable, place.lanes, place.destination, place.ordering, key, '0')
  if place.delivery == 'pull' then
    redis.call('ZADD', place.consumer_lease_ends, '0', key)
    redis.call('ZADD', place.consumers, '0', place.destination)
  end
  wake(place.wake_releasable, place.destination)
end
