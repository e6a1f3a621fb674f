-- Heads of lanes, and the hints that say which may leave and not before when.

-- True if the message is its lane's head. Where nothing is in order each is.
local function is_head(ordering, in_progress, sequence)
  if ordering == 'none' then return redis.call('ZSCORE', in_progress, sequence) and true or false end
  return redis.call('ZRANGE', in_progress, 0, 0)[1] == sequence
end

-- Names a lane whose head may leave, not before so long. `lane` is its key; where nothing is in
-- order, the sequence.
local function may_leave(releasable, lanes, destination, ordering, lane, not_before)
  if ordering == 'destination' then
    redis.call('ZADD', releasable, text(not_before), destination)
    return
  end
  redis.call('ZADD', lanes, text(not_before), lane)
  local earliest = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', releasable, earliest, destination)
end
