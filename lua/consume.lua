#!lua flags=allow-oom
-- consume: leases the fronts of lanes to a consumer, and returns their messages. The front of a lane begins with the
-- first message that is not accepted. It ends before the first message that is not processed, is halted or damaged, or
-- has a pending withdrawal.
--
-- Returns: {deadline in ms since 1970, then per message: lane's key (without ordering: the sequence), sequence, record,
--   attempts or '', followed by the body ('': missing) if it is stored out of line}
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, out_of_line, bodies, head, runs, consumers, wake

-- The most messages that one call reads to find messages to lease.
local READS_MAX = 4000
-- In ms: how long consumers do not look at a lane that waits for the owner or has no other messages for them.
local LOOK_AGAIN_MS = 1000

local number = tonumber(call_number)
local answered = replayed(key_call, number)
if answered and answered.err then return answered end
local now, lasts = now_ms(), tonumber(lease_ms)
local epoch = current_epoch(key_epoch, now, seen_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'paused', 'delivery', 'halted_ready',
  'withdrawals', 'consumers_epoch', 'consumers_from_ms', 'born', 'consumers_wait_ms')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if not answered and (definition[1] ~= version or definition[4] ~= 'pull') then
  return redis.error_reply('STALE_DEFINITION ' .. definition[1])
end

local wait_max = tonumber(wait_max_ms)
local budget = {reads = READS_MAX, first_read = 32}

-- Returns the ready messages of a lane that follow the accepted ones without a gap, at most `most`.
local function run_of(i, key, entry, most)
  local set = sets[ordering == 'none' and 1 or i]
  local lane = {
    in_progress = set.in_progress, ready = set.ready, upto = '0', held_upto = text(entry.accepted),
    holds_none = entry.accepted == 0, gone = {}, run = {},
  }
  if ordering == 'none' then
    local is_ready = entry.accepted == 0 and redis.call('ZSCORE', lane.ready, key)
    return is_ready and {key} or {}
  end
  read_lane(lane, budget, math.min(most, budget.reads))
  return lane.run
end

-- Adds messages of a lane to the answer.
local answer, wanted = {}, {}
local function add_messages(key, sequences, records)
  local attempts = redis.call('HMGET', key_attempts, unpack(sequences))
  for i, sequence in ipairs(sequences) do
    local at = #answer
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = key, sequence, records[i], attempts[i] or ''
    if bytes_out_of_line(records[i]) > 0 then
      answer[at + 5] = ''
      wanted[#wanted + 1] = {answer, at + 5, sequence}
    end
  end
end

-- Answers a repeated call with the messages that are still leased under its secret.
if answered then
  answer[1] = answered
  for i, key in ipairs(lanes) do
    local entry = read_lease(key_consumer_leases, key)
    if entry.secret == secret and has_consumer(entry, now) then
      local sequences, records = {}, {}
      for _, sequence in ipairs(run_of(i, key, entry, READS_MAX)) do
        local record = redis.call('HGET', key_messages, sequence) or ''
        if tonumber(sequence) <= entry.leased and not is_tombstone(record) then
          sequences[#sequences + 1], records[#records + 1] = sequence, record
        end
      end
      if #sequences > 0 then add_messages(key, sequences, records) end
    end
  end
  put_bodies(key_bodies, wanted)
  return answer
end

local deadline = now + lasts
answer[1] = text(deadline)

-- If Redis lost an epoch, it may also have lost leases of that time, so consumers get nothing until such leases must
-- have ended. This takes at most the length of one lease, even if leases have become shorter since. A destination
-- that was created in this epoch had no leases. If the clock was ahead when the end of the wait was stored, the wait
-- begins again.
local from, wait = tonumber(definition[8]) or 0, tonumber(definition[10]) or 0
if definition[7] ~= text(epoch) or from > now + wait then
  wait = math.max(lasts, math.min(from - now, wait))
  from = (tonumber(definition[9]) or 0) >= epoch and 0 or now + wait
  redis.call('HSET', key_destination, 'consumers_epoch', text(epoch), 'consumers_from_ms', text(from),
    'consumers_wait_ms', text(wait))
end
if from > now or string.find(definition[3] or '', 'delivery', 1, true) then
  keep(key_call, number, answer[1])
  return answer
end

local left, room = tonumber(most), tonumber(bytes_max)
local lanes_left = tonumber(lanes_max) - redis.call('ZCOUNT', key_consumer_lease_ends, '(' .. text(now), '+inf')
local is_halted = (tonumber(definition[5]) or 0) > 0
local is_withdrawn = (tonumber(definition[6]) or 0) > 0

-- Returns the part of a run that may be leased, without tombstones; the records of this part; and true if the owner
-- must act first.
local function front_of(run)
  local records = redis.call('HMGET', key_messages, unpack(run))
  local halted = is_halted and redis.call('ZMSCORE', key_halted, unpack(run)) or {}
  local withdrawn = is_withdrawn and redis.call('HMGET', key_withdrawals, unpack(run)) or {}
  local front, kept = {}, {}
  for i, sequence in ipairs(run) do
    local record = records[i] or ''
    if halted[i] then return front, kept end
    if withdrawn[i] then return front, kept, true end
    if not is_tombstone(record) then
      if not is_readable(record) then return front, kept, true end
      local size = #record + bytes_out_of_line(record)
      if size > room and (#front > 0 or #answer > 1) then return front, kept end
      front[#front + 1], kept[#kept + 1], room = sequence, record, room - size
    end
  end
  return front, kept, #front == 0
end

-- `owner_ends`: lanes that the owner must look at. `hints`: when consumers look again. `empty`: lanes without messages
-- for consumers.
local leased, owner_ends, hints, empty = {}, {}, {}, {}
local function note(list, score, key)
  list[#list + 1], list[#list + 2] = text(score), key
end

-- Reads from when the lanes may be leased. The caller may have chosen the lanes by earlier hints.
local function read_hints()
  if #lanes == 0 then return {} end
  if ordering == 'destination' then return {redis.call('ZSCORE', key_releasable, destination)} end
  return redis.call('ZMSCORE', key_lanes, unpack(lanes))
end

-- Leases the front of a lane. Returns false if the call may lease no further lane.
local function lease(i, key, hint)
  local wait, is_too_late = wait_of(hint, now, wait_max)
  local entry = read_lease(key_consumer_leases, key)
  if has_consumer(entry, now) then
    note(hints, entry.deadline, key)
  elseif entry.secret or entry.refusal then
    -- The owner must decide first.
    note(owner_ends, 0, key)
    note(hints, now + LOOK_AGAIN_MS, key)
  elseif wait > 0 then
    -- The backoff of the lane is not over.
    if is_too_late then note(hints, now + wait_max, key) end
  elseif entry.most and #leased > 0 then
    return true
  else
    local could_read, run = pcall(run_of, i, key, entry, math.min(left, entry.most or left))
    -- Only the owner reports a lane that cannot be read.
    local front, records, for_owner = {}, {}, not could_read
    if could_read and #run > 0 then front, records, for_owner = front_of(run) end
    if #front > 0 then
      leased[#leased + 1] = {key = key, entry = entry}
      entry.secret, entry.epoch, entry.deadline, entry.lasts = secret, epoch, deadline, lasts
      entry.leased, left = tonumber(front[#front]), left - #front
      note(owner_ends, deadline, key)
      note(hints, deadline, key)
      add_messages(key, front, records)
      return not entry.most
    elseif could_read and #run == 0 and budget.reads > 0 and entry.accepted == 0 then
      empty[#empty + 1] = key
    elseif room > 0 and budget.reads > 0 then
      if for_owner then note(owner_ends, 0, key) end
      note(hints, now + LOOK_AGAIN_MS, key)
    end
  end
  return true
end

local waits_until = read_hints()
for i, key in ipairs(lanes) do
  if left <= 0 or room <= 0 or #leased >= lanes_left or budget.reads <= 0 then break end
  if not lease(i, key, waits_until[i]) then break end
end

for _, one in ipairs(leased) do
  one.entry.is_shared = #leased > 1 or nil
  keep_lease(key_consumer_leases, one.key, one.entry)
end
if #owner_ends > 0 then
  redis.call('ZADD', key_consumer_lease_ends, unpack(owner_ends))
  redis.call('ZADD', key_consumers, '0', destination)
end
move_hints(key_releasable, key_lanes, destination, ordering, hints, not is_withdrawn and empty or {})
for i = 1, #owner_ends, 2 do
  if owner_ends[i] == '0' then
    wake(key_wake_releasable, destination)
    break
  end
end
put_bodies(key_bodies, wanted)
keep(key_call, number, answer[1])
return answer
