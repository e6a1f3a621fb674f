-- Heads of lanes, and the hints that say which heads may be released. If a head may leave now, its hint is not a
-- time, so that a step of the clock cannot hide it. Such a hint is 0 in `releasable`. In `lanes` it is the sequence
-- of the head, so that the lanes that have waited longest come first; or 0 for a lane that comes before all others.
-- Otherwise the hint is the time at which a backoff ends, which is above any sequence.

-- Scores from this number on are times; lower scores are not. (As a time, the number was in 2001.)
local FIRST_TIME = 1000000000000

-- True if the message is the head of its lane. Without ordering, every message is a head.
local function is_head(ordering, in_progress, sequence)
  if ordering == 'none' then return redis.call('ZSCORE', in_progress, sequence) and true or false end
  return redis.call('ZRANGE', in_progress, 0, 0)[1] == sequence
end

-- Sets the hint of a destination from the hint of its first lane.
local function hint_at_destination(releasable, destination, hint)
  redis.call('ZADD', releasable, tonumber(hint) < FIRST_TIME and '0' or hint, destination)
end

-- Adds a hint for a lane whose head may be released. `lane` is the ordering key; without ordering, the sequence.
local function may_leave(releasable, lanes, destination, ordering, lane, hint)
  if ordering ~= 'destination' then
    redis.call('ZADD', lanes, hint, lane)
    hint = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  end
  hint_at_destination(releasable, destination, hint)
end

-- True if a lane with this hint need not wait for other lanes: its backoff is over, an operator retries its head, or
-- its head is a tombstone.
local function is_first(hint)
  return hint == '0' or tonumber(hint) >= FIRST_TIME
end

-- Returns how long a lane with this hint must still wait, in ms. Also returns true if this is longer than any
-- backoff, because the clock was ahead when the hint was stored.
local function wait_of(hint, now, wait_max)
  local wait = tonumber(hint) or 0
  wait = wait < FIRST_TIME and 0 or math.max(0, wait - now)
  return math.min(wait, wait_max), wait > wait_max
end

-- Removes pending withdrawals from the hash `withdrawals`, and subtracts them from the destination's counter. While a
-- destination has pending withdrawals, it is in `withdrawing`, which the owner polls like `releasable`.
local function forget_withdrawals(hash, withdrawals, withdrawing, destination, ...)
  local count = redis.call('HDEL', withdrawals, ...)
  if count == 0 then return end
  redis.call('HINCRBY', hash, 'withdrawals', -count)
  if redis.call('EXISTS', withdrawals) == 0 then redis.call('ZREM', withdrawing, destination) end
end

-- Changes the hints of lanes: `hints` holds score and lane in turn. Removes the hints of `empty` lanes.
local function move_hints(releasable, lanes, destination, ordering, hints, empty)
  if #hints + #empty == 0 then return end
  local earliest = hints[1]
  if ordering ~= 'destination' then
    if #hints > 0 then redis.call('ZADD', lanes, unpack(hints)) end
    if #empty > 0 then redis.call('ZREM', lanes, unpack(empty)) end
    earliest = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  end
  if earliest then
    hint_at_destination(releasable, destination, earliest)
  else
    redis.call('ZREM', releasable, destination)
  end
end
