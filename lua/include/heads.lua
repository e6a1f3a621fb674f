-- Claims while Redis has no memory left: a message that is processed now should leave soon and free memory. So a
-- claim takes only heads of lanes, and only while few earlier heads wait for their delivery.

-- How many waiting messages one call checks, and how many heads of a destination may wait for their delivery.
local WINDOW, HEADS_MAX = 1000, 1000

-- True if no earlier message of the lane is pending. If the destination has several lanes, the record names the
-- previous message of its lane. A message with an unreadable record counts as a head, so that it is claimed and then
-- halted.
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

-- Returns the heads among these messages that may leave now, at most `most`.
local function heads_among(sequences, ordering, messages, lanes, most)
  local heads = {}
  most = math.min(most, (is_beyond_reserve() and HEADS_BEYOND or HEADS_MAX) - redis.call('ZCARD', lanes))
  for _, sequence in ipairs(sequences) do
    if #heads >= most then break end
    if leads_lane(ordering, messages, sequence) then heads[#heads + 1] = sequence end
  end
  return heads
end
