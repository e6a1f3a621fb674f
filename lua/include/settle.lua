-- Cleans up after messages that have left: `is_gone` holds their sequences.

-- Adds the log entries of these messages. Returns the length of the log.
local function log_gone(log, order, is_gone, new)
  local length = 0
  for from = 1, #new, 1000 do
    local entries, left = {}, {}
    for i = from, math.min(from + 999, #new) do
      local sequence = new[i].sequence
      if is_gone[sequence] then
        left[#left + 1] = sequence
        entries[#entries + 1] = sequence
        entries[#entries + 1] = new[i].entry
      end
    end
    if #left > 0 then
      redis.call('HSET', log, unpack(entries))
      length = redis.call('RPUSH', order, unpack(left))
    end
  end
  return length
end

-- Returns the sequences that are not dead letters, because the bodies of dead letters stay.
local function no_letters(dead, sequences)
  if #sequences == 0 or redis.call('ZCARD', dead) == 0 then return sequences end
  local rest, scores = {}, redis.call('ZMSCORE', dead, unpack(sequences))
  for i, sequence in ipairs(sequences) do
    if not scores[i] then rest[#rest + 1] = sequence end
  end
  return rest
end

-- Removes the oldest `excess` entries of the log, with the bodies that are kept for them.
local function shorten_log(log, order, bodies, dead, excess)
  if excess <= 0 then return end
  local oldest = redis.call('LPOP', order, math.min(excess, 4000))
  redis.call('HDEL', log, unpack(oldest))
  if redis.call('HLEN', bodies) > 0 then remove_bodies(bodies, no_letters(dead, oldest)) end
end

-- Removes bodies of messages that have left, except bodies of dead letters. `named` holds the fields of these bodies.
local function forget_bodies(bodies, dead, is_gone, named)
  for from = 1, #named, 2000 do
    local fields, sequences = {}, {}
    for i = from, math.min(from + 1999, #named) do
      local sequence = string.match(named[i], '^%d+')
      if is_gone[sequence] then
        fields[#fields + 1] = named[i]
        sequences[#sequences + 1] = sequence
      end
    end
    local kept, removed = {}, {}
    for _, sequence in ipairs(no_letters(dead, sequences)) do kept[sequence] = true end
    for i, field in ipairs(fields) do
      if kept[sequences[i]] then removed[#removed + 1] = field end
    end
    if #removed > 0 then redis.call('HDEL', bodies, unpack(removed)) end
  end
end

-- Forgets these idempotency keys, unless another message now uses them.
local function forget_keys(idempotency_keys, is_gone, named)
  for from = 1, #named, 2000 do
    local forgotten, last = {}, math.min(from + 1999, #named)
    for i, kept in ipairs(redis.call('HMGET', idempotency_keys, unpack(named, from, last))) do
      if kept and is_gone[string.match(kept, '^%d+ (%d+) ')] then
        forgotten[#forgotten + 1] = named[from + i - 1]
      end
    end
    if #forgotten > 0 then redis.call('HDEL', idempotency_keys, unpack(forgotten)) end
  end
end

-- Counts the tombstones among the messages that left a lane. `counts` is 'bytes=<accounted
-- bytes>;dropped=<count>;dead_lettered=<count>;cancelled=<count>;'. Returns the accounted bytes, and the number of
-- messages that were not tombstones.
local function count_tombstones(hash, counts, left)
  for _, counter in ipairs({'dropped', 'dead_lettered', 'cancelled'}) do
    local count = math.min(tonumber(string.match(counts, counter .. '=(%d+);')), left)
    if count > 0 then redis.call('HINCRBY', hash, counter, count) end
    left = left - count
  end
  return tonumber(string.match(counts, 'bytes=(%d+);')), left
end
