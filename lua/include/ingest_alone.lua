-- The fast path through ingest, for what quiet destinations do most: few arrivals of one lane, which wait for a
-- processor and have nothing special. It does the same with fewer commands and less Lua. If a write fails, it
-- undoes those before it; then the whole transition runs, and finds out which key has the wrong type.

-- More arrivals than this take the full path, which costs less for each.
local FEW_ARRIVALS = 32

-- Stores `count` records, with the sequences from `first` on; they are in ARGV, behind `base`. Returns how many
-- messages wait now; nil if it stored none.
local function ingest_alone(destination, waiting, messages, active, in_progress, first, count, base)
  local records, scores, sequences = {}, {}, {}
  for i = 1, count do
    local sequence = text(first + i - 1)
    records[2 * i - 1], records[2 * i] = sequence, ARGV[base + i]
    scores[2 * i - 1], scores[2 * i] = sequence, sequence
    sequences[i] = sequence
  end
  if not try('HSET', messages, unpack(records)) then return nil end
  local length = try('RPUSH', waiting, unpack(sequences))
  if not length then
    redis.call('HDEL', messages, unpack(sequences))
    return nil
  end
  local has_lane = try('ZADD', in_progress, unpack(scores))
  if has_lane and (length > count or try('ZADD', active, now_text(), destination)) then return length end
  redis.call('LTRIM', waiting, 0, -1 - count)
  redis.call('HDEL', messages, unpack(sequences))
  if has_lane then redis.call('ZREM', in_progress, unpack(sequences)) end
end
