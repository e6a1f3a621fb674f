#!lua
-- complete: stores the outputs of claimed messages, and makes the messages ready.
--
-- Returns: {number (from 1), 'stale_lease' | 'settled' | 'full', number, …}: the messages that were not completed;
--   settled: completed before; full: Redis has no memory left for this output, and the lease of the message continues
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, UNREADABLE
-- Sent again, it finds the messages settled: their leases have ended. No call number is needed.
-- include: schema, clock, wake
-- include: lists, leases, attempts, waiting, serial, reserve

-- How long a result is kept, and the most bytes of results that are added within this time: for one destination, and
-- for all destinations of a partition.
local RESULT_MS = 60000
local RESULTS_BYTES_MAX, ALL_RESULTS_BYTES_MAX = 32 * 1048576, 128 * 1048576

local schema = check_schema(key_epoch)
if schema ~= record_schema then return redis.error_reply('STALE_SCHEMA ' .. schema) end

-- Read from the destination itself, because the caller may know an old definition.
local definition = redis.call('HMGET', key_destination, 'ordering', 'processing', 'ready', 'paused')
local ordering, serial = definition[1], definition[2] == 'serial'
local place = {
  destination = destination, ordering = ordering, hash = key_destination, messages = key_messages,
  attempts = key_attempts, waiting = key_waiting, delayed = key_delayed, builtin = key_active_builtin,
  worker = key_active_worker, wake = key_wake_waiting,
}
local held = deadlines(key_leases, members_of(completions))
local attempts_kept = redis.call('HLEN', key_attempts) > 0

-- A lease token names its lane. A forged token, or a token from before a change of ordering, must not affect another
-- lane. A destination without ordering keys has only one pair of sets, so it is enough to check the head of that
-- pair.
local heads = {}
local function head_of(lane)
  if not heads[lane] then heads[lane] = redis.call('ZRANGE', lanes[lane].in_progress, '0', '0')[1] or '' end
  return heads[lane]
end
local first
if ordering ~= 'key' and #lanes == 1 and lanes[1].key == '' then first = tonumber(head_of(1)) or math.huge end
local function stands_in(lane, sequence, number)
  if first then return number >= first end
  if head_of(lane) == sequence then return true end
  return redis.call('ZSCORE', lanes[lane].in_progress, sequence)
end

-- Returns the status of a message that is not completed.
local function why_not(lane, sequence, is_again)
  if is_again or redis.call('ZSCORE', lanes[lane].ready, sequence) then return 'settled' end
  return why_gone(key_messages, sequence)
end

local answer, scores, before = {}, {}, 0
local gone, finished, done, records, done_as = {}, {}, 0, {n = 0}, {}
for lane = 1, #lanes do scores[lane] = {n = 0} end
local function except(i, why)
  local at = #answer
  answer[at + 1], answer[at + 2] = text(i), why
end
-- By how many bytes each message grows, if Redis has no memory left.
local growth = {}
if IS_FULL then
  for i, one in ipairs(completions) do
    local length = #one.record
    growth[i] = length == 0 and 0 or length - redis.call('HSTRLEN', key_messages, one.sequence)
  end
  for _, body in ipairs(bodies) do
    local which = tonumber(body.of)
    local stored = redis.call('HSTRLEN', key_bodies, completions[which].sequence .. body.suffix)
    growth[which] = growth[which] + #body.body - stored
  end
end
local function must_wait(lane, sequence, i)
  if not IS_FULL or growth[i] <= GROWTH_MAX then return false end
  if is_delivery_paused(definition[4]) then return true end
  if ordering ~= 'none' and head_of(lane) ~= sequence then return true end
  return ordering ~= 'destination' and not has_room_for_head(key_lanes)
end

for i, one in ipairs(completions) do
  local lane, sequence = tonumber(one.lane), one.sequence
  local number = tonumber(sequence)
  if number < before then return redis.error_reply('UNREADABLE the sequences must rise') end
  if held[i] and number ~= before and stands_in(lane, sequence, number) then
    if must_wait(lane, sequence, i) then
      except(i, 'full')
    else
      before = number
      add(scores[lane], sequence, sequence)
      done = done + 1
      gone[done], finished[done], done_as[i] = one.member, sequence, sequence
      if one.record ~= '' then add(records, sequence, one.record) end
    end
  else
    except(i, why_not(lane, sequence, number == before))
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

-- Keeps the errors, but resets the counts, because delivery counts its own attempts.
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

-- Keeps the outputs that producers wait for, and wakes them. If there is no room for a result, its producer learns only
-- that the message is processed.
local function keep_results()
  local bytes = redis.call('HMGET', key_results, destination, '*')
  local own, all = tonumber(bytes[1]) or 0, tonumber(bytes[2]) or 0
  for _, one in ipairs(kept) do
    local sequence, size = done_as[tonumber(one.of)], #one.value
    if sequence then
      if not IS_FULL and own + size <= RESULTS_BYTES_MAX and all + size <= ALL_RESULTS_BYTES_MAX then
        redis.call('SET', one.result, one.value, 'PX', RESULT_MS)
        own, all = own + size, all + size
      end
      wake(key_wake_results, destination .. '/' .. sequence)
    end
  end
  redis.call('HSET', key_results, destination, text(own), '*', text(all))
  if not bytes[2] then redis.call('PEXPIRE', key_results, RESULT_MS) end
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

-- If a key has the wrong type, the call ends here, before it writes.
for lane, of_lane in ipairs(scores) do
  if of_lane.n > 0 then redis.call('ZCARD', lanes[lane].ready) end
end
if done > 0 then
  local now = now_ms()
  redis.call('ZREM', key_leases, unpack(gone, 1, done))
  if records.n > 0 then redis.call('HSET', key_messages, unpack(records, 1, records.n)) end
  if stored.n > 0 then redis.call('HSET', key_bodies, unpack(stored, 1, stored.n)) end
  if #no_bodies > 0 then redis.call('HDEL', key_bodies, unpack(no_bodies)) end
  redis.call('HSET', key_destination, 'ready', text((tonumber(definition[3]) or 0) + done))
  if attempts_kept then forget_attempts() end
  if #kept > 0 then keep_results() end
  local releasable = false
  for lane, of_lane in ipairs(scores) do
    if of_lane.n > 0 then
      redis.call('ZADD', lanes[lane].ready, unpack(of_lane, 1, of_lane.n))
      releasable = finish(lane, of_lane, now) or releasable
    end
  end
  if heads_ready.n > 0 then redis.call('ZADD', key_lanes, unpack(heads_ready, 1, heads_ready.n)) end
  if releasable then
    redis.call('ZADD', key_releasable, '0', destination)
    wake(key_wake_releasable, destination)
  end
end
return answer
