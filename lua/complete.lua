#!lua
-- complete: stores the outputs of claimed messages, and makes the messages ready.
--
-- KEYS:
--   [1]  destination       reseq:{p07}:d:<dest>
--   [2]  messages          reseq:{p07}:d:<dest>:messages
--   [3]  attempts          reseq:{p07}:d:<dest>:attempts
--   [4]  leases            reseq:{p07}:leases
--   [5]  releasable        reseq:{p07}:releasable
--   [6]  lanes             reseq:{p07}:d:<dest>:lanes
--   [7]  wake_releasable   reseq:{p07}:wake:releasable
--   [8]  waiting           reseq:{p07}:d:<dest>:waiting
--   [9]  delayed           reseq:{p07}:delayed
--   [10] active_builtin    reseq:{p07}:active:builtin
--   [11] active_worker     reseq:{p07}:active:worker
--   [12] wake_waiting      reseq:{p07}:wake:waiting
--   [13] epoch             reseq:{p07}:epoch
--   [14] bodies            reseq:{p07}:d:<dest>:bodies
--   [15…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
--   A short call has only 1 to 5, 7, 13 and those of its lane: one message of a destination that is one lane, without
--   bodies stored apart.
-- ARGV:
--   [1] destination  [2] number of lanes  [3] schema of the records  [4] number of messages;
--   then the lanes' keys, then the sequences, ascending, then the members of leases, then the records ('': as
--   stored); then, if there are several lanes, the lane of each message (from 1); then 3 for each body that is
--   stored apart, or no longer is: its message (from 1), '' or 'i' (the body as it arrived), the body or ''. A
--   short call has only 1 and 3, then the sequence, the member and the record
-- Returns: {which (from 1), 'stale_lease' | 'settled' | 'damaged' | 'full', which, …}: all others were completed;
--   settled: completed before; damaged: a key that it needs has the wrong type, and its lease runs on; full: Redis
--   has no memory left for this output, and its lease runs on
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, UNREADABLE, MORE_KEYS (a short call does not
--   suffice)
-- Sent again, it finds the messages settled: their leases have ended. No call number is needed.
-- include: schema, clock, damage, wake, apart, hand_over, complete_alone

-- The index of the keys of the first lane.
local FIRST_LANE = 15

local is_short = #KEYS == 9

local schema, epoch
if is_short then schema, epoch = check_schema(KEYS[7]) else schema = check_schema(KEYS[13]) end
if schema ~= ARGV[is_short and 2 or 3] then return redis.error_reply('STALE_SCHEMA ' .. schema) end

-- Read from the destination itself, because the caller may know an old definition.
local destination = ARGV[1]
local known = redis.call('HMGET', KEYS[1], 'ordering', 'processing', 'ready', 'version', 'withdrawals', 'deleted',
  'delivery', 'paused')
local ordering, serial = known[1], known[2] == 'serial'

-- The fast path (include/complete_alone.lua) is for short calls.
if is_short then
  if ordering ~= 'destination' or serial then
    return redis.error_reply('MORE_KEYS the destination is not one parallel lane any more')
  end
  local k, a = KEYS, ARGV
  local is_head
  if not IS_FULL then
    is_head = complete_alone(destination, k[2], k[3], k[4], k[5], k[8], k[9], a[3], a[4], a[5])
  end
  if is_head ~= nil then
    redis.call('HSET', k[1], 'ready', text((tonumber(known[3]) or 0) + 1))
    if is_head and known[4] and not known[6] then
      wake_for_head(k[6], destination, known[4], known[3], known[5], known[7], epoch, k[2], a[3], a[5])
    elseif is_head then
      wake(k[6], destination)
    end
    return {}
  end
  KEYS = {k[1], k[2], k[3], k[4], k[5]}
  KEYS[7], KEYS[13], KEYS[FIRST_LANE], KEYS[FIRST_LANE + 1] = k[6], k[7], k[8], k[9]
  ARGV = {a[1], '1', a[2], '1', '', a[3], a[4], a[5]}
end

-- The rest is for calls that cannot take the fast path.
-- include: expect, lists, leases, attempts, waiting, serial, reserve
local place = {
  destination = destination, ordering = ordering, hash = KEYS[1], messages = KEYS[2],
  attempts = KEYS[3], waiting = KEYS[8], delayed = KEYS[9], builtin = KEYS[10], worker = KEYS[11],
  wake = KEYS[12],
}
local function in_progress_of(lane) return KEYS[13 + 2 * lane] end
local function ready_of(lane) return KEYS[14 + 2 * lane] end

local lane_count, count = tonumber(ARGV[2]), tonumber(ARGV[4])
local sequence_base, member_base = 4 + lane_count, 4 + lane_count + count
local record_base, lane_base = member_base + count, member_base + 2 * count
local held = deadlines(KEYS[4], ARGV, member_base + 1, member_base + count)
expect('ZCARD', KEYS[5])
if ordering ~= 'destination' then expect('ZCARD', KEYS[6]) end
if serial then
  expect_waiting(place)
  expect('ZCARD', KEYS[9])
end
local attempts_kept = redis.call('HLEN', KEYS[3]) > 0

-- A token names its lane. A forged token, or one from an older definition's ordering, must not reach into
-- another lane. A destination without keys has only one lane, without gaps, so its head is enough to check.
local heads, is_damaged = {}, {}
local function head_of(lane)
  if not heads[lane] then
    local found = try('ZRANGE', in_progress_of(lane), '0', '0')
    is_damaged[lane] = not found
    heads[lane] = found and found[1] or ''
  end
  return heads[lane]
end
local first, positions
if ordering == 'destination' and lane_count == 1 and ARGV[5] == '' then
  first = tonumber(head_of(1)) or math.huge
elseif ordering == 'none' and lane_count == 1 then
  positions = try('ZMSCORE', in_progress_of(1), unpack(ARGV, sequence_base + 1, sequence_base + count))
end
local function stands_in(lane, sequence, number, i)
  if first then return number >= first end
  if positions then return positions[i] end
  if head_of(lane) == sequence then return true end
  return not is_damaged[lane] and redis.call('ZSCORE', in_progress_of(lane), sequence)
end

-- The status of a message that is not completed; false if a set of the lane cannot be read.
local function why_not(lane, sequence, is_again, is_held)
  if is_again then return 'settled' end
  local score = redis.pcall('ZSCORE', ready_of(lane), sequence)
  local can_read = type(score) ~= 'table'
  if can_read and score then return 'settled' end
  if is_held and (is_damaged[lane] or not can_read) then return 'damaged' end
  return why_gone(KEYS[2], sequence)
end

local answer, taken, scores, before = {}, {n = 0}, {}, 0
for lane = 1, lane_count do scores[lane] = {n = 0} end
local function except(i, why)
  local at = #answer
  answer[at + 1], answer[at + 2] = text(i), why
end
local function lane_of(i) return lane_count > 1 and tonumber(ARGV[lane_base + i]) or 1 end
-- The arguments after the records are about bodies that are stored apart.
local body_base = lane_base + (lane_count > 1 and count or 0)
local cannot_store, has_records = {}, false
if #ARGV > body_base and not try('HLEN', KEYS[14]) then
  for i = body_base + 1, #ARGV, 3 do cannot_store[tonumber(ARGV[i])] = true end
end
-- Redis has no memory left. By how much each message grows.
local growth = {}
if IS_FULL then
  for i = 1, count do
    local record = ARGV[record_base + i]
    growth[i] = record == '' and 0 or #record - (try('HSTRLEN', KEYS[2], ARGV[sequence_base + i]) or 0)
  end
  for i = body_base + 1, #ARGV, 3 do
    local which = tonumber(ARGV[i])
    local stored = try('HSTRLEN', KEYS[14], ARGV[sequence_base + which] .. ARGV[i + 1]) or 0
    growth[which] = growth[which] + #ARGV[i + 2] - stored
  end
end
local function must_wait(lane, sequence, i)
  if not IS_FULL or growth[i] <= GROWTH_MAX then return false end
  if is_delivery_paused(known[8]) then return true end
  if ordering ~= 'none' and head_of(lane) ~= sequence then return true end
  return ordering ~= 'destination' and not has_room_for_head(KEYS[6])
end

for i = 1, count do
  local lane, sequence = lane_of(i), ARGV[sequence_base + i]
  local number = tonumber(sequence)
  if number < before then return redis.error_reply('UNREADABLE the sequences must rise') end
  if held[i] and cannot_store[i] then
    except(i, 'damaged')
  elseif held[i] and number ~= before and stands_in(lane, sequence, number, i) then
    if must_wait(lane, sequence, i) then
      except(i, 'full')
    else
      before = number
      add(scores[lane], sequence, sequence)
      add(taken, i, lane)
      has_records = has_records or ARGV[record_base + i] ~= ''
    end
  else
    except(i, why_not(lane, sequence, number == before, held[i]))
  end
end

if has_records then expect('HLEN', KEYS[2]) end

-- The first write: adds to the ready sets. If one has the wrong type, the messages of its lane keep their
-- leases.
for lane = 1, lane_count do
  local of_lane = scores[lane]
  if of_lane.n > 0 and not try('ZADD', ready_of(lane), unpack(of_lane, 1, of_lane.n)) then
    is_damaged[lane], scores[lane] = true, {n = 0}
  end
end

local gone, finished, done, records, done_as = {}, {}, 0, {n = 0}, {}
for at = 1, taken.n, 2 do
  local i = taken[at]
  local sequence, record = ARGV[sequence_base + i], ARGV[record_base + i]
  if is_damaged[taken[at + 1]] then
    except(i, 'damaged')
  else
    done = done + 1
    gone[done], finished[done], done_as[i] = ARGV[member_base + i], sequence, sequence
    if record ~= '' then add(records, sequence, record) end
  end
end

-- Bodies to store apart, and bodies to remove.
local bodies, no_bodies = {n = 0}, {}
for i = body_base + 1, #ARGV, 3 do
  local sequence = done_as[tonumber(ARGV[i])]
  if sequence and ARGV[i + 2] == '' then
    no_bodies[#no_bodies + 1] = sequence .. ARGV[i + 1]
  elseif sequence then
    add(bodies, sequence .. ARGV[i + 1], ARGV[i + 2])
  end
end

-- Keeps the errors; the counts start again for delivery.
local function forget_attempts()
  for _, sequence in ipairs(finished) do
    if redis.call('HEXISTS', KEYS[3], sequence) == 1 then
      local attempts = attempts_of(KEYS[3], sequence)
      if #attempts[6] == 0 then
        redis.call('HDEL', KEYS[3], sequence)
      else
        keep_attempts(KEYS[3], sequence, new_attempts('', attempts[6]))
      end
    end
  end
end

-- With ordering by key: lanes whose heads are now ready.
local heads_ready = {n = 0}

-- Updates hints after messages of a lane became ready. True if one of them may be released.
local function finish(lane, of_lane, now)
  if ordering == 'none' then
    redis.call('ZADD', KEYS[6], unpack(of_lane, 1, of_lane.n))
    return true
  end
  local is_head = head_of(lane) == of_lane[1]
  if is_head and ordering == 'key' then add(heads_ready, of_lane[1], ARGV[4 + lane]) end
  if serial then advance(place, in_progress_of(lane), ready_of(lane), now) end
  return is_head
end

if done > 0 then
  local now = now_ms()
  redis.call('ZREM', KEYS[4], unpack(gone, 1, done))
  if records.n > 0 then redis.call('HSET', KEYS[2], unpack(records, 1, records.n)) end
  if bodies.n > 0 then redis.call('HSET', KEYS[14], unpack(bodies, 1, bodies.n)) end
  if #no_bodies > 0 then redis.call('HDEL', KEYS[14], unpack(no_bodies)) end
  redis.call('HSET', KEYS[1], 'ready', text((tonumber(known[3]) or 0) + done))
  if attempts_kept then forget_attempts() end
  local releasable = false
  for lane = 1, lane_count do
    if scores[lane].n > 0 then releasable = finish(lane, scores[lane], now) or releasable end
  end
  if heads_ready.n > 0 then redis.call('ZADD', KEYS[6], unpack(heads_ready, 1, heads_ready.n)) end
  if releasable then
    redis.call('ZADD', KEYS[5], '0', destination)
    wake(KEYS[7], destination)
  end
end
return answer
