-- Messages that were withdrawn while they waited in a long list are still listed there: to find one
-- in the list takes longer the longer it is. The set `withdrawn` names them, the destination's field
-- of that name counts them, and claims pass them.

-- As many as one look takes, and the most looks of one call.
local FRONT, FRONTS_MAX = 1000, 20

-- Notes that these, which wait, are withdrawn.
local function note_withdrawn(hash, withdrawn, sequences)
  for from = 1, #sequences, 1000 do
    local upto = math.min(from + 999, #sequences)
    redis.call('SADD', withdrawn, unpack(sequences, from, upto))
  end
  redis.call('HINCRBY', hash, 'withdrawn', #sequences)
end

-- Takes those that were withdrawn off the front of the list. False if it looked through as many as one
-- call may, and found nothing else.
local function pass_withdrawn(hash, waiting, withdrawn)
  for _ = 1, FRONTS_MAX do
    local front = redis.call('LRANGE', waiting, 0, FRONT - 1)
    if #front == 0 then
      redis.call('DEL', withdrawn)
      redis.call('HDEL', hash, 'withdrawn')
      return true
    end
    local marks, kept, passed = redis.call('SMISMEMBER', withdrawn, unpack(front)), {}, {}
    for i = #front, 1, -1 do
      local list = marks[i] == 1 and passed or kept
      list[#list + 1] = front[i]
    end
    if #passed == 0 then return true end
    redis.call('LTRIM', waiting, #front, -1)
    if #kept > 0 then redis.call('LPUSH', waiting, unpack(kept)) end
    redis.call('SREM', withdrawn, unpack(passed))
    if redis.call('HINCRBY', hash, 'withdrawn', -#passed) <= 0 then redis.call('HDEL', hash, 'withdrawn') end
    if #kept > 0 then return true end
  end
  return false
end
