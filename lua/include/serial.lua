-- Serial processing: of each lane one message at a time waits, is delayed, processed or halted. Those
-- behind it are held: they stand in in-progress alone. `place` is as in waiting.lua, with `delayed`
-- and `attempts`.

-- The first message of a lane behind `after` ('-inf': at all) that is not finished; nil if none.
local function first_unfinished(in_progress, ready, after)
  local from = after
  while true do
    local some = redis.call('ZRANGE', in_progress, from, '+inf', 'BYSCORE', 'LIMIT', 0, 100)
    if #some == 0 then return nil end
    local finished = redis.call('ZMSCORE', ready, unpack(some))
    for i, sequence in ipairs(some) do
      if not finished[i] then return sequence end
    end
    from = '(' .. some[#some]
  end
end

-- The lane's message before has been processed, or has left: the next may be claimed, behind those
-- of other lanes that wait already; or is delayed, if it is not due yet.
local function advance(place, in_progress, ready, now)
  local sequence = first_unfinished(in_progress, ready, '-inf')
  if not sequence then return end
  redis.call('HINCRBY', place.hash, 'held', -1)
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
