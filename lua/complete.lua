#!lua
-- complete: stores the outputs of claimed messages, and makes the messages ready.
--
-- Returns: {number (from 1), 'stale_lease' | 'settled' | 'damaged' | 'full', number, …}: all others were completed;
--   settled: completed before; damaged: a key that the message needs has the wrong type, and its lease continues; full:
--   Redis has no memory left for this output, and the lease of the message continues
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, UNREADABLE
-- Sent again, it finds the messages settled: their leases have ended. No call number is needed.
-- include: schema, clock, damage, wake
-- include: expect, lists, leases, attempts, waiting, serial, reserve

local schema = check_schema(key_epoch)
if schema ~= record_schema then return redis.error_reply('STALE_SCHEMA ' .. schema) end

-- Read from the destination itself, because the caller may know an old definition.
local known = redis.call('HMGET', key_destination, 'ordering', 'processing', 'ready', 'paused')
local ordering, serial = known[1], known[2] == 'serial'
local place = {
  destination = destination, ordering = ordering, hash = key_destination, messages = key_messages,
  attempts = key_attempts, waiting = key_waiting, delayed = key_delayed, builtin = key_active_builtin,
  worker = key_active_worker, wake = key_wake_waiting,
}
local held = deadlines(key_leases, members_of(completions))
expect('ZCARD', key_releasable)
if ordering ~= 'destination' then expect('ZCARD', key_lanes) end
if serial then
  expect_waiting(place)
  expect('ZCARD', key_delayed)
end
local attempts_kept = redis.call('HLEN', key_attempts) > 0

-- A token names its lane. A forged token, or a token from before a change of ordering, must not affect another lane. A
-- destination without keys has only one lane, without gaps, so it is enough to check its head.
local heads, is_damaged = {}, {}
local function head_of(lane)
  if not heads[lane] then
    local found = try('ZRANGE', lanes[lane].in_progress, '0', '0')
    is_damaged[lane] = not found
    heads[lane] = found and found[1] or ''
  end
  return heads[lane]
end
local first, positions
if ordering == 'destination' and #lanes == 1 and lanes[1].key == '' then
  first = tonumber(head_of(1)) or math.huge
elseif ordering == 'none' and #lanes == 1 then
  local sequences = {}
  for i, one in ipairs(completions) do sequences[i] = one.sequence end
  positions = try('ZMSCORE', lanes[1].in_progress, unpack(sequences))
end
local function stands_in(lane, sequence, number, i)
  if first then return number >= first end
  if positions then return positions[i] end
  if head_of(lane) == sequence then return true end
  return not is_damaged[lane] and redis.call('ZSCORE', lanes[lane].in_progress, sequence)
end

-- Returns the status of a message that is not completed; 'damaged' if it is leased and a set of its lane is unreadable.
local function why_not(lane, sequence, is_again, is_held)
  if is_again then return 'settled' end
  local score = redis.pcall('ZSCORE', lanes[lane].ready, sequence)
  local can_read = type(score) ~= 'table'
  if can_read and score then return 'settled' end
  if is_held and (is_damaged[lane] or not can_read) then return 'damaged' end
  return why_gone(key_messages, sequence)
end

local answer, taken, scores, before = {}, {n = 0}, {}, 0
for lane = 1, #lanes do scores[lane] = {n = 0} end
local function except(i, why)
  local at = #answer
  answer[at + 1], answer[at + 2] = text(i), why
end
local cannot_store, has_records = {}, false
if #bodies > 0 and not try('HLEN', key_bodies) then
  for _, body in ipairs(bodies) do cannot_store[tonumber(body.of)] = true end
end
-- By how many bytes each message grows, if Redis has no memory left.
local growth = {}
if IS_FULL then
  for i, one in ipairs(completions) do
    local length = #one.record
    growth[i] = length == 0 and 0 or length - (try('HSTRLEN', key_messages, one.sequence) or 0)
  end
  for _, body in ipairs(bodies) do
    local which = tonumber(body.of)
    local stored = try('HSTRLEN', key_bodies, completions[which].sequence .. body.suffix) or 0
    growth[which] = growth[which] + #body.body - stored
  end
end
local function must_wait(lane, sequence, i)
  if not IS_FULL or growth[i] <= GROWTH_MAX then return false end
  if is_delivery_paused(known[4]) then return true end
  if ordering ~= 'none' and head_of(lane) ~= sequence then return true end
  return ordering ~= 'destination' and not has_room_for_head(key_lanes)
end

for i, one in ipairs(completions) do
  local lane, sequence = tonumber(one.lane), one.sequence
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
      has_records = has_records or one.record ~= ''
    end
  else
    except(i, why_not(lane, sequence, number == before, held[i]))
  end
end

if has_records then expect('HLEN', key_messages) end

-- The first write: adds to the ready sets. If a set has the wrong type, the messages of its lane keep their leases.
for lane, of_lane in ipairs(scores) do
  if of_lane.n > 0 and not try('ZADD', lanes[lane].ready, unpack(of_lane, 1, of_lane.n)) then
    is_damaged[lane], scores[lane] = true, {n = 0}
  end
end

local gone, finished, done, records, done_as = {}, {}, 0, {n = 0}, {}
for at = 1, taken.n, 2 do
  local i = taken[at]
  local sequence, record = completions[i].sequence, completions[i].record
  if is_damaged[taken[at + 1]] then
    except(i, 'damaged')
  else
    done = done + 1
    gone[done], finished[done], done_as[i] = completions[i].member, sequence, sequence
    if record ~= '' then add(records, sequence, record) end
  end
end

-- Bodies to store out of line, and fields of bodies to remove.
local stored, no_bodies = {n = 0}, {}
for _, body in ipairs(bodies) do
  local sequence = done_as[tonumber(body.of)]
  if sequence and body.body == '' then
    no_bodies[#no_bodies + 1] = sequence .. body.suffix
  elseif sequence then
    add(stored, sequence .. body.suffix, body.body)
  end
end

-- Keeps the errors; the counts start again for delivery.
local function forget_attempts()
  for _, sequence in ipairs(finished) do
    if redis.call('HEXISTS', key_attempts, sequence) == 1 then
      local attempts = attempts_of(key_attempts, sequence)
      if #attempts[6] == 0 then
        redis.call('HDEL', key_attempts, sequence)
      else
        keep_attempts(key_attempts, sequence, new_attempts('', attempts[6]))
      end
    end
  end
end

-- With ordering by key: lanes whose heads are now ready.
local heads_ready = {n = 0}

-- Updates hints after messages of a lane became ready. True if one of them may be released.
local function finish(lane, of_lane, now)
  if ordering == 'none' then
    redis.call('ZADD', key_lanes, unpack(of_lane, 1, of_lane.n))
    return true
  end
  local is_head = head_of(lane) == of_lane[1]
  if is_head and ordering == 'key' then add(heads_ready, of_lane[1], lanes[lane].key) end
  if serial then advance(place, lanes[lane].in_progress, lanes[lane].ready, now) end
  return is_head
end

if done > 0 then
  local now = now_ms()
  redis.call('ZREM', key_leases, unpack(gone, 1, done))
  if records.n > 0 then redis.call('HSET', key_messages, unpack(records, 1, records.n)) end
  if stored.n > 0 then redis.call('HSET', key_bodies, unpack(stored, 1, stored.n)) end
  if #no_bodies > 0 then redis.call('HDEL', key_bodies, unpack(no_bodies)) end
  redis.call('HSET', key_destination, 'ready', text((tonumber(known[3]) or 0) + done))
  if attempts_kept then forget_attempts() end
  local releasable = false
  for lane, of_lane in ipairs(scores) do
    if of_lane.n > 0 then releasable = finish(lane, of_lane, now) or releasable end
  end
  if heads_ready.n > 0 then redis.call('ZADD', key_lanes, unpack(heads_ready, 1, heads_ready.n)) end
  if releasable then
    redis.call('ZADD', key_releasable, '0', destination)
    wake(key_wake_releasable, destination)
  end
end
return answer
