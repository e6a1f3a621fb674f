-- The fast paths through ingest, for what quiet destinations do most: few arrivals of one lane, which have nothing
-- special. They do the same with fewer commands and less Lua. If a write fails, they undo those before it; then the
-- whole transition runs, and finds out which key has the wrong type.

-- More arrivals than this take the full path, which costs less for each.
local FEW_ARRIVALS = 32

-- The sequences of `count` arrivals from `first` on, and two lists for writing them: with the records, which are in
-- ARGV behind `base`, and with themselves as scores.
local function numbered(first, count, base)
  local sequences, records, scores = {}, {}, {}
  for i = 1, count do
    local sequence = text(first + i - 1)
    records[2 * i - 1], records[2 * i] = sequence, ARGV[base + i]
    scores[2 * i - 1], scores[2 * i] = sequence, sequence
    sequences[i] = sequence
  end
  return sequences, records, scores
end

-- Stores messages that wait for a processor. Returns how many wait now; nil if it stored none.
local function ingest_alone(destination, waiting, messages, active, in_progress, first, count, base)
  local sequences, records, scores = numbered(first, count, base)
  if not try('HSET', messages, unpack(records)) then return nil end
  local length = try('RPUSH', waiting, unpack(sequences))
  if not length then
    redis.call('HDEL', messages, unpack(sequences))
    return nil
  end
  local has_lane = try('ZADD', in_progress, unpack(scores))
  if has_lane and (length > count or try('ZADD', active, '0', destination)) then return length end
  redis.call('LTRIM', waiting, 0, -1 - count)
  redis.call('HDEL', messages, unpack(sequences))
  if has_lane then redis.call('ZREM', in_progress, unpack(sequences)) end
end

-- Stores messages that need no processing. Returns whether the first is the head of the lane, which is releasable
-- then; nil if it stored none.
local function ingest_ready_alone(destination, messages, releasable, in_progress, ready, first, count, base)
  local length = try('ZCARD', in_progress)
  if not length then return nil end
  local sequences, records, scores = numbered(first, count, base)
  if try('ZADD', ready, unpack(scores)) ~= count then return nil end
  local hinted = length > 0 and 0 or try('ZADD', releasable, '0', destination)
  if not hinted or not try('HSET', messages, unpack(records)) then
    redis.call('ZREM', ready, unpack(sequences))
    if hinted == 1 then redis.call('ZREM', releasable, destination) end
    return nil
  end
  redis.call('ZADD', in_progress, unpack(scores))
  return length == 0
end
