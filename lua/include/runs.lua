-- Reads the front of lanes: which messages have left a lane, and which messages may be released next.
--
-- A lane is a table. `in_progress` and `ready` are its keys. `upto` is the last sequence that has left ('0': none).
-- `held_upto` is the last sequence that the owner still holds; `holds_none` is true if the owner holds none. These
-- functions fill in `gone` (the messages that have left) and `run` (the messages to release), both as sequences in
-- order; `is_prefix` (the messages that have left are exactly the front of in-progress); and `is_all` (the lane has
-- no other messages).
--
-- `budget` holds the remaining limits for all lanes of a call: `settles` messages to settle, `reads` sequences to
-- read. `first_read` is how many messages the first read of a lane takes. It is small, because the run may end soon.

-- Returns how many messages of a lane are in progress within a range.
local function pending_upto(lane, from, upto)
  return redis.call('ZCOUNT', lane.in_progress, from, upto)
end

-- True if the messages that left are exactly the front of in-progress.
local function is_gone_first(lane)
  local last = lane.gone[#lane.gone]
  return last and pending_upto(lane, '-inf', last) == #lane.gone
end

-- Returns the ready messages from `from` on (a bound as in ZRANGE), up to the first gap. A message that has left does
-- not count as a gap.
local function common_prefix(lane, budget, from, gone, finished)
  local has_left, run = {}, {}
  for _, sequence in ipairs(gone) do has_left[sequence] = true end
  local count = #gone + #finished
  local pending = redis.call('ZRANGE', lane.in_progress, from, '+inf', 'BYSCORE', 'LIMIT', '0', count)
  budget.reads = budget.reads - #pending
  for _, sequence in ipairs(pending) do
    if not has_left[sequence] then
      if sequence ~= finished[#run + 1] then break end
      run[#run + 1] = sequence
    end
  end
  return run
end

-- Reads the messages that left a lane. Returns false if one call may not settle that many: then the call settles no
-- message of the lane.
local function read_gone(lane, budget)
  if lane.upto == '0' then return true end
  local most = budget.settles + 1
  local gone = redis.call('ZRANGE', lane.ready, '-inf', lane.upto, 'BYSCORE', 'LIMIT', '0', most)
  budget.settles = math.max(0, budget.settles - #gone)
  if #gone == most then return false end
  lane.gone = gone
  return true
end

-- Extends a lane's run by the ready messages after a sequence, up to the first gap. Each read is larger than the one
-- before, so that a short run costs little.
local function read_on(lane, budget, after, most, size)
  while most > 0 and budget.reads > 0 do
    local from, count = '(' .. after, math.min(size, most, budget.reads)
    local finished = redis.call('ZRANGE', lane.ready, from, '+inf', 'BYSCORE', 'LIMIT', '0', count)
    local found = #finished
    if found == 0 then return end
    budget.reads = budget.reads - found
    -- Each ready message is also in progress. So if both sets have equally many messages up to the last one read,
    -- these messages have no gap.
    local is_prefix = pending_upto(lane, from, finished[found]) == found
    if not is_prefix then finished = common_prefix(lane, budget, from, {}, finished) end
    if #lane.run == 0 then
      lane.run = finished
    else
      for _, sequence in ipairs(finished) do lane.run[#lane.run + 1] = sequence end
    end
    if not is_prefix or found < count then return end
    after, most, size = finished[found], most - found, 2 * size
  end
end

-- Reads the run that follows the messages that the owner holds.
local function read_behind(lane, budget, most)
  lane.is_prefix = is_gone_first(lane)
  read_on(lane, budget, lane.held_upto, most, budget.first_read)
end

-- Reads the run of a lane in which the owner holds no message. The run follows the messages that left.
local function read_front(lane, budget, most)
  local gone, size = lane.gone, math.min(most, budget.first_read)
  if #gone == 0 and most == 0 then return end
  local pending = redis.call('ZCARD', lane.in_progress)
  lane.is_all, lane.is_prefix = #gone == pending, true
  if lane.is_all then return end
  local finished = {}
  if most > 0 then finished = redis.call('ZRANGE', lane.ready, #gone, #gone + size - 1) end
  budget.reads = budget.reads - #finished
  local count, last = #gone + #finished, finished[#finished] or gone[#gone]
  if count == 0 then return end
  if count == pending or pending_upto(lane, '-inf', last) == count then
    lane.run = finished
    if #finished == size then read_on(lane, budget, last, most - size, 2 * size) end
  else
    lane.is_prefix = is_gone_first(lane)
    lane.run = common_prefix(lane, budget, '-inf', gone, finished)
  end
end

-- Reads, for one lane, the messages that left it, and at most `most` messages to release. Returns false, and
-- sets neither `gone` nor `run`, if more messages left the lane than the call may still settle.
local function read_lane(lane, budget, most)
  if not read_gone(lane, budget) then return false end
  local read_run = lane.holds_none and read_front or read_behind
  read_run(lane, budget, most)
  return true
end
