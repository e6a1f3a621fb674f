#!lua flags=allow-oom
-- complete: what was claimed has been processed; stores the outputs and makes the messages ready.
--
-- KEYS:
--   [1]  call              reseq:{p07}:calls:<caller>
--   [2]  destination       reseq:{p07}:d:<dest>
--   [3]  messages          reseq:{p07}:d:<dest>:messages
--   [4]  attempts          reseq:{p07}:d:<dest>:attempts
--   [5]  leases            reseq:{p07}:leases
--   [6]  releasable        reseq:{p07}:releasable
--   [7]  lanes             reseq:{p07}:d:<dest>:lanes
--   [8]  wake_releasable   reseq:{p07}:wake:releasable
--   [9]  waiting           reseq:{p07}:d:<dest>:waiting
--   [10] delayed           reseq:{p07}:delayed
--   [11] active_builtin    reseq:{p07}:active:builtin
--   [12] active_worker     reseq:{p07}:active:worker
--   [13] wake_waiting      reseq:{p07}:wake:waiting
--   [14] epoch             reseq:{p07}:epoch
--   [15] bodies            reseq:{p07}:d:<dest>:bodies
--   [16…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] call number  [2] destination  [3] number of lanes  [4] schema that the records are written
--   in  [5] number of messages; then the lanes' keys, then the sequences, rising, then the members
--   of leases, then the records ('': as it is stored); then, if there are several lanes, of each message
--   its lane (from 1); then per body that is stored apart, or is not any more, 3: its message (from 1),
--   '' or 'i' (the body as it arrived), the body or ''
-- Returns: {which (from 1), 'stale_lease' | 'settled', which, …}: all others were completed; settled:
--   it was completed before
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, STALE_CALL, UNREADABLE
-- include: schema, clock, call, expect, lists, leases, attempts, wake, waiting, serial

local number = tonumber(ARGV[1])
local answered = replayed(KEYS[1], number)
if answered then return answered end
local schema = check_schema(KEYS[14])
if schema ~= ARGV[4] then return redis.error_reply('STALE_SCHEMA ' .. schema) end

-- The caller may know an old definition, so the destination is asked itself.
local destination = ARGV[2]
local known = redis.call('HMGET', KEYS[2], 'ordering', 'processing', 'ready')
local ordering, serial = known[1], known[2] == 'serial'
local lane_count = tonumber(ARGV[3])
local place = {
  destination = destination, ordering = ordering, hash = KEYS[2], messages = KEYS[3],
  attempts = KEYS[4], waiting = KEYS[9], delayed = KEYS[10], builtin = KEYS[11], worker = KEYS[12],
  wake = KEYS[13],
}
local function in_progress_of(lane) return KEYS[14 + 2 * lane] end
local function ready_of(lane) return KEYS[15 + 2 * lane] end

local count = tonumber(ARGV[5])
local sequence_base, member_base = 5 + lane_count, 5 + lane_count + count
local record_base, lane_base = member_base + count, member_base + 2 * count
local held = deadlines(KEYS[5], ARGV, member_base + 1, member_base + count)
expect('ZCARD', KEYS[6])
if ordering ~= 'destination' then expect('ZCARD', KEYS[7]) end
if serial then
  expect_waiting(place)
  expect('ZCARD', KEYS[10])
end
local attempts_kept = redis.call('HLEN', KEYS[4]) > 0

-- A token names its lane: one that was tampered with, or that comes with the ordering of an old
-- definition, must not reach into another. What is in order without keys stands in one lane, without
-- gaps: of that its head says enough.
local heads = {}
local function head_of(lane)
  heads[lane] = heads[lane] or redis.call('ZRANGE', in_progress_of(lane), '0', '0')[1] or ''
  return heads[lane]
end
local first
if ordering == 'destination' and lane_count == 1 and ARGV[6] == '' then
  first = tonumber(head_of(1)) or math.huge
end
local function stands_in(lane, sequence, number)
  if first then return number >= first end
  if ordering == 'key' and head_of(lane) == sequence then return true end
  return redis.call('ZSCORE', in_progress_of(lane), sequence)
end

local answer, gone, finished, scores, done, before = {}, {}, {}, {}, 0, 0
local records, done_as = {n = 0}, {}
for lane = 1, lane_count do scores[lane] = {n = 0} end
for i = 1, count do
  local lane, sequence = lane_count > 1 and tonumber(ARGV[lane_base + i]) or 1, ARGV[sequence_base + i]
  local number = tonumber(sequence)
  if number < before then return redis.error_reply('UNREADABLE the sequences must rise') end
  if held[i] and number ~= before and stands_in(lane, sequence, number) then
    before, done = number, done + 1
    add(scores[lane], sequence, sequence)
    gone[done], finished[done], done_as[i] = ARGV[member_base + i], sequence, sequence
    local record = ARGV[record_base + i]
    if record ~= '' then add(records, sequence, record) end
  else
    local is_settled = number == before or redis.call('ZSCORE', ready_of(lane), sequence)
    local at = #answer
    answer[at + 1] = text(i)
    answer[at + 2] = is_settled and 'settled' or why_gone(KEYS[3], sequence)
  end
end

if records.n > 0 then expect('HLEN', KEYS[3]) end

-- Bodies to store apart, and those to remove.
local bodies, no_bodies = {n = 0}, {}
for i = lane_base + (lane_count > 1 and count or 0) + 1, #ARGV, 3 do
  local sequence = done_as[tonumber(ARGV[i])]
  if sequence and ARGV[i + 2] == '' then
    no_bodies[#no_bodies + 1] = sequence .. ARGV[i + 1]
  elseif sequence then
    add(bodies, sequence .. ARGV[i + 1], ARGV[i + 2])
  end
end
if bodies.n > 0 or #no_bodies > 0 then expect('HLEN', KEYS[15]) end

-- What went wrong before is kept; the counts begin anew, for the delivery.
local function forget_attempts()
  for _, sequence in ipairs(finished) do
    if redis.call('HEXISTS', KEYS[4], sequence) == 1 then
      local attempts = attempts_of(KEYS[4], sequence)
      if #attempts[6] == 0 then
        redis.call('HDEL', KEYS[4], sequence)
      else
        keep_attempts(KEYS[4], sequence, {0, 0, '', '', '', attempts[6]})
      end
    end
  end
end

-- Of lanes that are keys, those whose heads are ready now.
local heads_ready = {n = 0}

-- Adds to the sets of what is ready: the first that is written. If one of them has another type, what
-- was written is taken back.
local function make_ready()
  for lane = 1, lane_count do
    local of_lane = scores[lane]
    local added = of_lane.n == 0 or redis.pcall('ZADD', ready_of(lane), unpack(of_lane, 1, of_lane.n))
    if type(added) == 'table' then
      for before = 1, lane - 1 do
        if scores[before].n > 0 then
          -- Score and member are the same.
          redis.call('ZREM', ready_of(before), unpack(scores[before], 1, scores[before].n))
        end
      end
      return added
    end
  end
end

-- What follows from messages of a lane that are ready now. True if one that may leave is among them.
local function finish(lane, of_lane, now)
  if ordering == 'none' then
    local hints, now_text = {}, text(now)
    for i = 2, of_lane.n, 2 do
      hints[i - 1], hints[i] = now_text, of_lane[i]
    end
    redis.call('ZADD', KEYS[7], unpack(hints))
    return true
  end
  local is_head = head_of(lane) == of_lane[1]
  if is_head and ordering == 'key' then add(heads_ready, text(now), ARGV[5 + lane]) end
  if serial then advance(place, in_progress_of(lane), ready_of(lane), now) end
  return is_head
end

if done > 0 then
  local failed = make_ready()
  if failed then return failed end
  local now = now_ms()
  redis.call('ZREM', KEYS[5], unpack(gone, 1, done))
  if records.n > 0 then redis.call('HSET', KEYS[3], unpack(records, 1, records.n)) end
  if bodies.n > 0 then redis.call('HSET', KEYS[15], unpack(bodies, 1, bodies.n)) end
  if #no_bodies > 0 then redis.call('HDEL', KEYS[15], unpack(no_bodies)) end
  redis.call('HSET', KEYS[2], 'ready', text((tonumber(known[3]) or 0) + done))
  if attempts_kept then forget_attempts() end
  local releasable = false
  for lane = 1, lane_count do
    if scores[lane].n > 0 then releasable = finish(lane, scores[lane], now) or releasable end
  end
  if heads_ready.n > 0 then redis.call('ZADD', KEYS[7], unpack(heads_ready, 1, heads_ready.n)) end
  if releasable then
    redis.call('ZADD', KEYS[6], 'LT', text(now), destination)
    wake(KEYS[8], destination)
  end
end
return keep(KEYS[1], number, answer)
