-- For claims while Redis has no memory left: each message that is processed then should leave soon, and free memory.
-- So only heads of lanes are claimed, few enough that their receiver has taken most of the earlier ones.

-- The waiting messages that one call looks at, and the most heads of a destination that wait for their delivery.
local WINDOW, HEADS_MAX = 1000, 1000

-- True if no message of its lane is before it. Where there are several lanes, its record names the one before it. A
-- record that cannot be read is claimed, so that it is halted.
local function leads_lane(ordering, messages, sequence)
  if ordering == 'none' then return true end
  local previous
  if ordering == 'destination' then
    previous = text(sequence - 1)
  else
    previous = string.match(redis.call('HGET', messages, sequence) or '', '^B?%d*;?P(%d+);')
  end
  return not previous or redis.call('HEXISTS', messages, previous) == 0
end

-- Which of these are heads that may leave now: at most `most`.
local function heads_among(sequences, ordering, messages, lanes, most)
  local heads = {}
  most = math.min(most, (is_beyond_reserve() and HEADS_BEYOND or HEADS_MAX) - redis.call('ZCARD', lanes))
  for _, sequence in ipairs(sequences) do
    if #heads >= most then break end
    if leads_lane(ordering, messages, sequence) then heads[#heads + 1] = sequence end
  end
  return heads
end
