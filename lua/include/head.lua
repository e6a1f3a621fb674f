-- Heads of lanes, and the hints that say which may be released. A hint that means now is no time, so that it is found
-- whatever the clock does: 0 in `releasable`; in `lanes` the sequence of the head, so that the lanes that have waited
-- longest come first, or 0 for a lane that comes before all others. A time, which is above any sequence, is the end of
-- a backoff.

-- A score below this is no time. As a time it would be in 2001.
local FIRST_TIME = 1000000000000

-- True if the message is its lane's head. Without ordering, every message is.
local function is_head(ordering, in_progress, sequence)
  if ordering == 'none' then return redis.call('ZSCORE', in_progress, sequence) and true or false end
  return redis.call('ZRANGE', in_progress, 0, 0)[1] == sequence
end

-- Adds the hint of a destination: that of its first lane.
local function hint_at_destination(releasable, destination, hint)
  redis.call('ZADD', releasable, tonumber(hint) < FIRST_TIME and '0' or hint, destination)
end

-- Adds a hint for a lane whose head may be released. `lane` is its key; without ordering, the sequence.
local function may_leave(releasable, lanes, destination, ordering, lane, hint)
  if ordering ~= 'destination' then
    redis.call('ZADD', lanes, hint, lane)
    hint = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  end
  hint_at_destination(releasable, destination, hint)
end

-- True if a lane with this hint does not wait for others: its backoff is over, its head is retried, or is a tombstone.
local function is_first(hint)
  return hint == '0' or tonumber(hint) >= FIRST_TIME
end

-- How long a hint still asks to wait, in ms; and true if that is longer than any backoff: the hint was stored while the
-- clock was ahead.
local function wait_of(hint, now, wait_max)
  local wait = tonumber(hint) or 0
  wait = wait < FIRST_TIME and 0 or math.max(0, wait - now)
  return math.min(wait, wait_max), wait > wait_max
end

-- Removes pending withdrawals: from a hash by message, and from the number of them. While there are any, the name of the
-- destination is in `withdrawing`, which the owner polls like `releasable`.
local function forget_withdrawals(hash, withdrawals, withdrawing, destination, ...)
  local count = redis.call('HDEL', withdrawals, ...)
  if count == 0 then return end
  redis.call('HINCRBY', hash, 'withdrawals', -count)
  if redis.call('EXISTS', withdrawals) == 0 then redis.call('ZREM', withdrawing, destination) end
end

-- Moves the hints of lanes: `hints` holds score and lane in turn. Removes those of `empty` lanes.
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
