-- What is done once messages have left: `is_gone` holds their sequences.

-- Adds their entries, sequence and entry in turn between two places of ARGV, to the log, and has the
-- oldest make room.
local function log_gone(log, order, most, is_gone, first, last)
  local length = 0
  for from = first, last, 2000 do
    local entries, left = {}, {}
    for i = from, math.min(from + 1998, last - 1), 2 do
      if is_gone[ARGV[i]] then
        left[#left + 1] = ARGV[i]
        entries[#entries + 1] = ARGV[i]
        entries[#entries + 1] = ARGV[i + 1]
      end
    end
    if #left > 0 then
      redis.call('HSET', log, unpack(entries))
      length = redis.call('RPUSH', order, unpack(left))
    end
  end
  local excess = length - tonumber(most)
  if excess > 0 then
    redis.call('HDEL', log, unpack(redis.call('LPOP', order, math.min(excess, 4000))))
  end
end

-- Forgets the idempotency keys from a place of ARGV on, unless another message has them now.
local function forget_keys(unique, is_gone, first)
  for from = first, #ARGV, 2000 do
    local forgotten, last = {}, math.min(from + 1999, #ARGV)
    for i, kept in ipairs(redis.call('HMGET', unique, unpack(ARGV, from, last))) do
      if kept and is_gone[string.match(kept, '^%d+ (%d+) ')] then
        forgotten[#forgotten + 1] = ARGV[from + i - 1]
      end
    end
    if #forgotten > 0 then redis.call('HDEL', unique, unpack(forgotten)) end
  end
end

-- Counts the tombstones among what has left a lane: told are its charges in bytes, and how many were
-- dropped, skipped, cancelled. Returns the charges, and how many of so many were no tombstones.
local function count_tombstones(hash, told, left)
  local bytes, rest = string.match(told, '^(%d+) (.+)$')
  local next_count = string.gmatch(rest, '%d+')
  for _, counter in ipairs({'dropped', 'skipped', 'cancelled'}) do
    local count = math.min(tonumber(next_count()), left)
    if count > 0 then redis.call('HINCRBY', hash, counter, count) end
    left = left - count
  end
  return tonumber(bytes), left
end
