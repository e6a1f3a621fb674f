-- Serial processing: only one message of each lane at a time is waiting, delayed, processing or halted. The messages
-- behind it await their turn: they are only in in-progress. `place` is as in waiting.lua, and also has `delayed` and
-- `attempts`.

-- Returns the first unfinished message of a lane; nil if there is none. Uses a binary search: if ready and
-- in-progress have equally many messages up to a sequence, all these messages are finished.
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

-- The caller calls this after a message of the lane was processed or left. Puts the next message of the lane behind
-- the waiting messages of other lanes, or delays it if it is not due yet.
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
    tell_claimers(place, redis.call('RPUSH', place.waiting, sequence), 1)
  end
end
