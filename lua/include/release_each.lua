-- Release without ordering, where each message is a lane: the same as the whole transition, without a table for each
-- lane. For calls in which nothing is special: no message is halted, withdrawn or was refused before, and nothing has to
-- be removed but records.

-- What becomes of each message of the call, whose lanes begin in ARGV behind `base`, 5 values for each: lists of those
-- that have left, to hand out (and of their places in the answer), whose hints go, and whose hints go behind the others.
-- Returns nil if one of them is special.
local function sort_each(lane_count, base, now)
  local keys, seen, gone, run, places, gone_hints, late_hints = {}, {}, {}, {}, {}, {}, {}
  for number = 1, lane_count do keys[number] = ARGV[base - 4 + 5 * number] end
  local is_ready, hints = redis.call('ZMSCORE', KEYS[17], unpack(keys)), redis.call('ZMSCORE', KEYS[7], unpack(keys))
  local answers, NOTHING, bytes = {0}, {0, ''}, 0
  for number = 1, lane_count do
    local key, at = keys[number], base - 4 + 5 * number
    local holds_none, wants = ARGV[at + 3] == '0', ARGV[at + 4] ~= '0'
    local is_first = is_ready[number] and not seen[key]
    local hint = holds_none and hints[number]
    seen[key], answers[number + 1] = true, NOTHING
    if is_first and ARGV[at + 1] + 0 >= key + 0 then
      local accounted_bytes = tonumber(ARGV[at + 2])
      if not accounted_bytes then return nil end
      bytes, gone[#gone + 1], gone_hints[#gone_hints + 1] = bytes + accounted_bytes, key, key
    elseif hint and hint + 0 > now then
      return nil
    elseif wants and holds_none and is_first then
      run[#run + 1], places[#run + 1] = key, number + 1
    elseif wants and holds_none then
      gone_hints[#gone_hints + 1] = key
    elseif hint then
      late_hints[#late_hints + 1], late_hints[#late_hints + 2] = text(now), key
    end
  end
  return {answers = answers, gone = gone, bytes = bytes, run = run, places = places, gone_hints = gone_hints,
    late_hints = late_hints}
end

-- Puts the records into the answer. False if one is missing, has its body apart, or they are too long for one answer.
local function hand_out_each(sorted, room)
  if #sorted.run == 0 then return true end
  for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(sorted.run))) do
    if not record or bytes_apart(record) > 0 then return false end
    room = room - #record
    sorted.answers[sorted.places[i]] = {0, '', sorted.run[i], record}
  end
  return room > 0
end

-- Returns the answer of the call, or nil without a change. `known` are fields of the destination, as release.lua reads
-- them.
local function release_each(destination, lane_count, base, now, room, known)
  expect('ZCARD', KEYS[6], KEYS[16])
  local sorted = sort_each(lane_count, base, now)
  if not sorted or not hand_out_each(sorted, room) then return nil end
  local gone, gone_hints = sorted.gone, sorted.gone_hints
  if #gone > 0 then
    redis.call('HDEL', KEYS[4], unpack(gone))
    redis.call('ZREM', KEYS[17], unpack(gone))
    redis.call('ZREM', KEYS[16], unpack(gone))
    redis.call('HSET', KEYS[3], 'settled', counted(known[5], #gone), 'ready', counted(known[6], -#gone),
      'bytes', counted(known[7], -sorted.bytes), 'delivered', counted(known[8], #gone))
  end
  if #gone_hints > 0 then redis.call('ZREM', KEYS[7], unpack(gone_hints)) end
  if #sorted.late_hints > 0 then redis.call('ZADD', KEYS[7], 'XX', unpack(sorted.late_hints)) end
  if redis.call('EXISTS', KEYS[7]) == 0 then redis.call('ZREM', KEYS[6], destination) end
  return sorted.answers
end
