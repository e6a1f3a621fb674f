#!lua flags=allow-oom
-- withdraw: makes messages leave without delivery: cancelled, dropped, or dead-lettered. Each message becomes a
-- tombstone, which holds its position until its lane has passed it. If a processor or sender may be working on a
-- message, the script stores a pending withdrawal; the owner of the partition carries it out when that attempt has
-- ended.
--
-- Returns: {'done' | 'withdrawing' | 'settled' | 'full' …} in order; full: the limit of dead letters is reached, and
--   the message stays
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   NOT_OWNER
-- Sent again, it changes nothing more: no call number is needed.
-- include: schema, clock, epoch, owner, attempts, head, wake, waiting, serial, out_of_line, withdrawn, consumers

check_schema(key_epoch)
local now = now_ms()
local known = redis.call('HMGET', key_destination, 'version', 'deleted', 'delivery')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
local epoch, takeover_wait = current_epoch(key_epoch, now, seen_epoch)
local by_policy = who == 'policy'
local token, known_epoch = string.match(who, '^(%S+) (%d+)$')
local is_owner = token and owns(key_owner, token)
if token and text(epoch) ~= known_epoch then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if token and not is_owner then return redis.error_reply('NOT_OWNER another owns the partition') end
-- True if no sender can be delivering these messages: no forgotten owner can be left, and either the owner itself makes
-- this call or there is no owner.
local no_sender_delivers = takeover_wait <= 0 and (is_owner or redis.call('EXISTS', key_owner) == 0)

local serial = processing == 'serial'
local place = {
  destination = destination, ordering = ordering, hash = key_destination, waiting = key_waiting,
  messages = key_messages, attempts = key_attempts, delayed = key_delayed, builtin = key_active_builtin,
  worker = key_active_worker, wake = key_wake_waiting,
}

-- Returns the record as a tombstone: marked, and without its body. Of an unreadable record, keeps only the accounted
-- bytes, if it can find them.
local function tombstone_of(record)
  local _, mark_end = string.find(record, '^B%d+;')
  local begin = (mark_end or 0) + 1
  local _, prefix_end = string.find(record, '^[PN]%d*;', begin)
  local length, header_at = string.match(record, KNOWN_FORMAT .. '%d+,(%d+);()', (prefix_end or begin - 1) + 1)
  if not length then
    local accounted_bytes = string.match(record, '^%d(%d+),', (prefix_end or begin - 1) + 1)
    return 'T' .. how .. 'D' .. (accounted_bytes or '0') .. ';'
  end
  return 'T' .. how .. string.sub(record, begin, header_at + tonumber(length) - 1)
end

local function write_letter(sequence, record, stage, attempts)
  local head = table.concat({text(now), stage, #reason, #attempts}, ' ')
  redis.call('HSET', key_dead_letter_messages, sequence, head .. ';' .. reason .. attempts .. record)
  redis.call('ZADD', key_dead_letters, sequence, sequence)
  redis.call('ZADD', key_dead_lettered_at, text(now), sequence)
end

letters_max = tonumber(letters_max)
local room_for_letters = letters_max == 0 and math.huge or letters_max - redis.call('ZCARD', key_dead_letters)

-- In a list of up to this length, the script searches for each message to remove.
local LIST_MAX = 1000
-- With more leases than this, the script does not look up which messages have one.
local LEASES_MAX = 20000
local is_short = ordering == 'none' or redis.call('LLEN', key_waiting) <= LIST_MAX
local leased, to_note = nil, {}

-- True if there may be a lease on this message. Reads all leases once.
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
  if known[3] ~= 'pull' then return end
  local entry = read_lease(key_consumer_leases, ordering == 'none' and sequence or lane)
  if tonumber(sequence) <= entry.accepted then return 'accepted' end
  if has_consumer(entry, now) and lease_covers(entry, sequence) then return 'held' end
end

-- Decides about a ready message: 'ready' if it may be withdrawn now, otherwise 'in_use' or 'settled'.
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
    -- An operator has handled it meanwhile.
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

-- Returns the stage that the message had reached, and its attempts; adds the error that is the reason, if there is one.
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

local records, tombstones = {}, {}
for _, message in ipairs(messages) do
  local record = redis.call('HGET', key_messages, message.sequence) or ''
  records[message.sequence] = record
  if string.sub(record, 1, 1) ~= 'T' then tombstones[message.sequence] = tombstone_of(record) end
end

local answer = {}
for _, message in ipairs(messages) do
  local number, sequence = tonumber(message.lane), message.sequence
  local lane = lanes[number]
  local in_progress, ready = lane.in_progress, lane.ready
  local record = records[sequence]
  local state = 'settled'
  if redis.call('ZSCORE', in_progress, sequence) then
    if string.sub(record, 1, 1) ~= 'T' then
      local is_full = how == 's' and room_for_letters <= 0
      state = is_full and 'full' or take_out(lane, sequence)
    else
      -- Its transform dropped it meanwhile, which ends the withdrawal.
      forget_withdrawal(sequence)
    end
  end
  if state == 'settled' or state == 'full' then
    answer[#answer + 1] = state
  elseif state == 'in_use' then
    request_withdrawal(lane.key, sequence)
    answer[#answer + 1] = 'withdrawing'
  else
    local stage, attempts = stage_and_attempts(sequence, state)
    if how == 's' then
      write_letter(sequence, record, stage, attempts)
      room_for_letters = room_for_letters - 1
    elseif bytes_out_of_line(record) > 0 then
      redis.call('HDEL', key_bodies, sequence)
    end
    redis.call('HSET', key_messages, sequence, tombstones[sequence])
    records[sequence] = tombstones[sequence]
    redis.call('HDEL', key_attempts, sequence)
    forget_withdrawal(sequence)
    if state ~= 'ready' then
      redis.call('ZADD', ready, sequence, sequence)
      redis.call('HINCRBY', key_destination, 'ready', 1)
      if serial and state ~= 'awaiting_turn' then advance(place, in_progress, ready, now) end
    end
    if is_head(ordering, in_progress, sequence) then
      local key = ordering == 'none' and sequence or lane.key
      may_leave(key_releasable, key_lanes, destination, ordering, key, '0')
      if known[3] == 'pull' then
        redis.call('ZADD', key_consumer_lease_ends, '0', key)
        redis.call('ZADD', key_consumers, '0', destination)
      end
      wake(key_wake_releasable, destination)
    end
    answer[#answer + 1] = 'done'
  end
end
if #to_note > 0 then note_withdrawn(key_destination, key_withdrawn, to_note) end
return answer
