-- The messages that wait to be claimed: a list, or without ordering a sorted set (by priority and sequence). `place`
-- is a table with the fields that the functions need: destination (its name), ordering, hash, waiting, messages,
-- builtin and worker (the keys active:…), wake.

-- Returns the key active:… of the processors or workers that may claim from the destination. Reads this from the
-- destination itself, because the caller may have an old definition.
local function active_of(place)
  if redis.call('HGET', place.hash, 'claimers') == 'worker' then return place.worker end
  return place.builtin
end

-- With each level of priority, a message overtakes up to this many messages that arrived earlier. The limit keeps
-- messages with a low priority from waiting for ever.
local PRIORITY_STEP = 262144

local function score_of(sequence, priority)
  return text((9 - tonumber(priority)) * PRIORITY_STEP + tonumber(sequence))
end

-- Notifies processors or workers if no message was waiting before.
local function tell_claimers(place, length, added)
  if length == added then
    redis.call('ZADD', active_of(place), '0', place.destination)
    wake(place.wake, place.destination)
  end
end

-- Adds messages to the sorted set by the priority in their records.
local function to_priorities(place, sequences)
  local scores = {}
  for from = 1, #sequences, 32 do
    local chunk = {}
    for i = from, math.min(from + 31, #sequences) do chunk[#chunk + 1] = sequences[i] end
    for i, record in ipairs(redis.call('HMGET', place.messages, unpack(chunk))) do
      local priority = record and string.match(record, '^B?%d*;?N(%d);') or '4'
      scores[#scores + 1] = score_of(chunk[i], priority)
      scores[#scores + 1] = chunk[i]
    end
  end
  redis.call('ZADD', place.waiting, unpack(scores))
  tell_claimers(place, redis.call('ZCARD', place.waiting), #sequences)
end

-- Puts messages back at the front: the messages that have waited longest are the most likely to block a head.
local function to_front(place, sequences)
  table.sort(sequences, function(a, b) return tonumber(a) > tonumber(b) end)
  if place.ordering == 'none' then return to_priorities(place, sequences) end
  local length = redis.call('LPUSH', place.waiting, unpack(sequences))
  tell_claimers(place, length, #sequences)
end
