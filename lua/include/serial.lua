-- Serial processing: of each lane one message at a time waits, is delayed, processed or halted. Those
-- behind it are held: they stand in in-progress alone. `place` is as in waiting.lua, with `delayed`
-- and `attempts`.

-- The first message of a lane that is not finished; nil if all are. Found by halves: up to a message,
-- as many stand in ready as in in-progress exactly if all of them are finished.
local function first_unfinished(in_progress, ready)
  local low, high = 0, redis.call('ZCARD', in_progress) - 1
  if high + 1 == redis.call('ZCARD', ready) then return nil end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local sequence = redis.call('ZRANGE', in_progress, middle, middle)[1]
    if redis.call('ZCOUNT', ready, '-inf', sequence) == middle + 1 then
      low = middle + 1
    else
      high = middle
    end
  end
  return redis.call('ZRANGE', in_progress, low, low)[1]
end

-- The lane's message before has been processed, or has left: the next may be claimed, behind those
-- of other lanes that wait already; or is delayed, if it is not due yet.
local function advance(place, in_progress, ready, now)
  local sequence = first_unfinished(in_progress, ready)
  if not sequence then return end
  redis.call('HINCRBY', place.hash, 'awaiting_turn', -1)
  local due = ''
  if redis.call('HEXISTS', place.attempts, sequence) == 1 then
    local attempts = attempts_of(place.attempts, sequence)
    due, attempts[5] = attempts[5], ''
    if due ~= '' then keep_attempts(place.attempts, sequence, attempts) end
  end
  if due ~= '' and tonumber(due) > now then
    redis.call('ZADD', place.delayed, due, place.destination .. '/' .. sequence)
    redis.call('HINCRBY', place.hash, 'delayed', 1)
  else
    tell_claimers(place, redis.call('RPUSH', place.waiting, sequence), 1, now)
  end
end
