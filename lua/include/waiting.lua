-- Puts sequences (ascending) back at the front of the waiting list: what has waited longest is
-- nearest to blocking a head.

-- The key of those who may claim from the destination. The caller may know an old definition, so
-- the destination is asked itself.
local function active_of(hash, builtin, worker)
  if redis.call('HGET', hash, 'claimers') == 'worker' then return worker end
  return builtin
end

-- Tells the processors if there was nothing to claim before.
local function to_front(waiting, active, wake, destination, sequences, now)
  local descending = {}
  for i = #sequences, 1, -1 do descending[#descending + 1] = sequences[i] end
  local length = redis.call('LPUSH', waiting, unpack(descending))
  if length == #sequences then
    redis.call('ZADD', active, text(now), destination)
    redis.call('PUBLISH', wake, destination)
  end
end
