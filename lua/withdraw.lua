#!lua flags=allow-oom
-- withdraw: makes messages leave without delivery: cancelled, dropped, or dead-lettered. Each message becomes a
-- tombstone, which holds the message's position until its lane has passed it. If a processor or sender may be working
-- on a message, the script stores a pending withdrawal. The owner of the partition carries it out when that attempt
-- has ended.
--
-- Returns: {'done' | 'withdrawing' | 'settled' | 'full' …} in the order of the call; full: the limit of dead letters
--   is reached, and the message stays
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   NOT_OWNER
-- Sent again, it changes nothing more: no call number is needed.
-- include: schema, clock, epoch, owner, attempts, head, wake, waiting, serial, out_of_line
-- include: tombstones, withdrawn, consumers

check_schema(key_epoch)
local now = now_ms()
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'delivery')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local epoch, takeover_wait = current_epoch(key_epoch, now, seen_epoch)
local by_policy = who == 'policy'
local token, known_epoch = string.match(who, '^(%S+) (%d+)$')
local is_owner = token and owns(key_owner, token)
if token and text(epoch) ~= known_epoch then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if token and not is_owner then return redis.error_reply('NOT_OWNER another owns the partition') end
-- True if no sender can be delivering these messages: Redis has forgotten no owner that may still send, and either
-- the owner itself makes this call or there is no owner.
local no_sender_delivers = takeover_wait <= 0 and (is_owner or redis.call('EXISTS', key_owner) == 0)

local serial = processing == 'serial'
local place = {
  destination = destination, ordering = ordering, processing = processing, delivery = definition[3],
  hash = key_destination, waiting = key_waiting, messages = key_messages, bodies = key_bodies,
  attempts = key_attempts, delayed = key_delayed, withdrawals = key_withdrawals, withdrawing = key_withdrawing,
  dead_letters = key_dead_letters, dead_letter_messages = key_dead_letter_messages,
  dead_lettered_at = key_dead_lettered_at, releasable = key_releasable, lanes = key_lanes, consumers = key_consumers,
  consumer_lease_ends = key_consumer_lease_ends, builtin = key_active_builtin, worker = key_active_worker,
  wake = key_wake_waiting, wake_releasable = key_wake_releasable,
}
local room = room_for_letters(key_dead_letters, letters_max)

-- The script searches `waiting` for each message to remove only if the list has at most this many entries.
local LIST_MAX = 1000
-- With more leases than this, the script treats every message as leased.
local LEASES_MAX = 20000
local is_short = ordering == 'none' or redis.call('LLEN', key_waiting) <= LIST_MAX
local leased, to_note = nil, {}

-- True if this message may be leased. Reads all leases once.
local function is_leased(sequence)
  if not leased then
    leased = {all = redis.call('ZCARD', key_leases) > LEASES_MAX}
    local prefix = destination .. '/'
    for _, member in ipairs(leased.all and {} or redis.call('ZRANGE', key_leases, 0, -1)) do
      if string.sub(member, 1, #prefix) == prefix then
        leased[string.match(member, '^%d+', #prefix + 1)] = true
      end
    end
  end
  return leased.all or leased[sequence]
end

local function forget_withdrawal(sequence)
  forget_withdrawals(key_destination, key_withdrawals, key_withdrawing, destination, sequence)
end

-- 'accepted' if a consumer has accepted this message and the owner has not settled it; 'held' if a consumer holds it.
local function by_consumer(lane, sequence)
  if definition[3] ~= 'pull' then return end
  local entry = read_lease(key_consumer_leases, ordering == 'none' and sequence or lane)
  if tonumber(sequence) <= entry.accepted then return 'accepted' end
  if has_consumer(entry, now) and lease_covers(entry, sequence) then return 'held' end
end

-- Decides about a ready message: returns 'ready' if it may be withdrawn now, otherwise 'in_use' or 'settled'.
local function take_ready(lane, sequence)
  local state = no_sender_delivers and (by_consumer(lane, sequence) or 'ready') or 'in_use'
  if state == 'accepted' and is_owner then
    -- The withdrawal came too late: the owner releases the message again, and settles it.
    forget_withdrawal(sequence)
    return 'settled'
  end
  return state == 'ready' and 'ready' or 'in_use'
end

-- Returns the state of a pending message, and removes the message from that state if it may leave now.
local function take_out(lane, sequence)
  local member, in_progress, ready = destination .. '/' .. sequence, lane.in_progress, lane.ready
  if redis.call('ZREM', key_halted, sequence) == 1 then
    if not redis.call('ZSCORE', ready, sequence) then return 'halted' end
    redis.call('HINCRBY', key_destination, 'halted_ready', -1)
    return 'ready'
  elseif by_policy then
    -- An operator has handled the message meanwhile.
    return 'settled'
  elseif redis.call('ZSCORE', ready, sequence) then
    return take_ready(lane.key, sequence)
  elseif redis.call('ZREM', key_delayed, member) == 1 then
    redis.call('HINCRBY', key_destination, 'delayed', -1)
    return 'delayed'
  elseif serial and first_unfinished(in_progress, ready) ~= sequence then
    redis.call('HINCRBY', key_destination, 'awaiting_turn', -1)
    return 'awaiting_turn'
  end
  if not is_short then
    if is_leased(sequence) then return 'in_use' end
    to_note[#to_note + 1] = sequence
    return 'waiting'
  end
  local taken
  if ordering == 'none' then
    taken = redis.call('ZREM', key_waiting, sequence)
  else
    taken = redis.call('LREM', key_waiting, 1, sequence)
  end
  return taken == 1 and 'waiting' or 'in_use'
end

local function request_withdrawal(lane_key, sequence)
  local text_of = how .. #lane_key .. ' ' .. lane_key .. reason
  if redis.call('HSETNX', key_withdrawals, sequence, text_of) == 0 then return end
  redis.call('HINCRBY', key_destination, 'withdrawals', 1)
  redis.call('ZADD', key_withdrawing, '0', destination)
  wake(key_wake_releasable, destination)
end

-- Returns the stage that the message had reached, and its attempts. If the reason is an error, adds the error to the
-- attempts.
local function stage_and_attempts(sequence, state)
  local attempts = attempts_of(key_attempts, sequence)
  local stage = state == 'ready' and 'delivery' or 'transform'
  if attempts[4] ~= '' then stage = attempts[4] end
  if problem ~= '' then
    attempts[1] = tonumber(failed)
    note_error(attempts, now, problem)
  end
  return stage, cmsgpack.pack(attempts)
end

local answer = {}
for _, message in ipairs(messages) do
  local sequence, lane = message.sequence, lanes[tonumber(message.lane)]
  local record = redis.call('HGET', key_messages, sequence) or ''
  local state = 'settled'
  if redis.call('ZSCORE', lane.in_progress, sequence) then
    if string.sub(record, 1, 1) == 'T' then
      -- The message's transform dropped it meanwhile, which ends the withdrawal.
      forget_withdrawal(sequence)
    elseif by_policy and redis.call('HEXISTS', key_withdrawals, sequence) == 1 then
      -- An earlier withdrawal by somebody else has priority.
      state = 'withdrawing'
    else
      state = how == 's' and room <= 0 and 'full' or take_out(lane, sequence)
    end
  end
  if state == 'settled' or state == 'full' or state == 'withdrawing' then
    answer[#answer + 1] = state
  elseif state == 'in_use' then
    request_withdrawal(lane.key, sequence)
    answer[#answer + 1] = 'withdrawing'
  else
    local stage, attempts = stage_and_attempts(sequence, state)
    local one = {sequence = sequence, record = record, how = how, reason = reason, stage = stage, attempts = attempts,
      state = state}
    leave(place, lane, one, now)
    if how == 's' then room = room - 1 end
    answer[#answer + 1] = 'done'
  end
end
if #to_note > 0 then note_withdrawn(key_destination, key_withdrawn, to_note) end
return answer
