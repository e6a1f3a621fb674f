-- Heads of lanes, and the hints that say which may be released, and when at the earliest.

-- True if the message is its lane's head. Without ordering, every message is.
local function is_head(ordering, in_progress, sequence)
  if ordering == 'none' then return redis.call('ZSCORE', in_progress, sequence) and true or false end
  return redis.call('ZRANGE', in_progress, 0, 0)[1] == sequence
end

-- Adds a hint for a lane whose head may be released, not before `not_before`. `lane` is its key; without
-- ordering, the sequence.
local function may_leave(releasable, lanes, destination, ordering, lane, not_before)
  if ordering == 'destination' then
    redis.call('ZADD', releasable, text(not_before), destination)
    return
  end
  redis.call('ZADD', lanes, text(not_before), lane)
  local earliest = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', releasable, earliest, destination)
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
    redis.call('ZADD', releasable, earliest, destination)
  else
    redis.call('ZREM', releasable, destination)
  end
end
