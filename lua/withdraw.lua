#!lua flags=allow-oom
-- withdraw: makes messages leave without delivery: cancelled, dropped, or dead-lettered. Each becomes a
-- tombstone, which holds its position until its lane has passed it. For a message that a processor or sender
-- may be working on, stores a pending withdrawal; the owner of the partition carries it out when that attempt
-- has ended.
--
-- KEYS:
--   [1]  epoch             reseq:{p07}:epoch
--   [2]  owner             reseq:{p07}:owner
--   [3]  destination       reseq:{p07}:d:<dest>
--   [4]  waiting           reseq:{p07}:d:<dest>:waiting
--   [5]  messages          reseq:{p07}:d:<dest>:messages
--   [6]  attempts          reseq:{p07}:d:<dest>:attempts
--   [7]  delayed           reseq:{p07}:delayed
--   [8]  halted            reseq:{p07}:d:<dest>:halted
--   [9]  withdrawals            reseq:{p07}:d:<dest>:withdrawals
--   [10] dead              reseq:{p07}:d:<dest>:dead-letters
--   [11] letters           reseq:{p07}:d:<dest>:dead-letter-messages
--   [12] releasable        reseq:{p07}:releasable
--   [13] lanes             reseq:{p07}:d:<dest>:lanes
--   [14] active_builtin    reseq:{p07}:active:builtin
--   [15] active_worker     reseq:{p07}:active:worker
--   [16] wake_waiting      reseq:{p07}:wake:waiting
--   [17] wake_releasable   reseq:{p07}:wake:releasable
--   [18] bodies            reseq:{p07}:d:<dest>:bodies
--   [19] dead_at           reseq:{p07}:d:<dest>:dead-lettered-at
--   [20] withdrawn         reseq:{p07}:d:<dest>:withdrawn
--   [21] leases            reseq:{p07}:leases
--   [22] consumer_leases   reseq:{p07}:d:<dest>:consumer-leases
--   [23] lease_ends        reseq:{p07}:d:<dest>:consumer-lease-ends
--   [24] consumers         reseq:{p07}:consumers
--   [25] withdrawing       reseq:{p07}:withdrawing
--   [26…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] destination  [2] definition version  [3] 'destination', 'key' or 'none'  [4] 'parallel' or
--   'serial'  [5] `known` of include/epoch.lua  [6] 'd' dropped, 's' dead-lettered or 'c' cancelled  [7] who
--   requests it: '' an operator; 'policy', for halted messages only; or '<owner token> <epoch>', the owner, which
--   is delivering none of them  [8] reason, as text  [9] failed attempts, including this one (0: as stored)
--   [10] error as JSON, or ''  [11] number of lanes  [12] most dead letters (0: no limit); then the lanes'
--   keys, then 2 per message: its lane (from 1), sequence
-- Returns: {'done' | 'withdrawing' | 'settled' | 'full' | 'damaged' …} in order; full: the limit of dead letters
--   is reached, and the message stays; damaged: a set of its lane has the wrong type
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   NOT_OWNER
-- Sent again, it changes nothing more: no call number is needed.
-- include: schema, clock, epoch, expect, damage, owner, attempts, head, wake, waiting, serial, apart, withdrawn, consumers

check_schema(KEYS[1])
local now = now_ms()
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'delivery')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[2] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
local epoch, takeover_wait = current_epoch(KEYS[1], now, ARGV[5])
local by_policy = ARGV[7] == 'policy'
local token, known_epoch = string.match(ARGV[7], '^(%S+) (%d+)$')
local is_owner = token and owns(KEYS[2], token)
if token and text(epoch) ~= known_epoch then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if token and not is_owner then return redis.error_reply('NOT_OWNER another owns the partition') end
-- No sender is delivering any of them if the owner itself requests it, or there is no owner, and no forgotten
-- owner can be left.
local no_sender_delivers = takeover_wait <= 0 and (is_owner or redis.call('EXISTS', KEYS[2]) == 0)

local destination, ordering, serial, how = ARGV[1], ARGV[3], ARGV[4] == 'serial', ARGV[6]
local lane_count = tonumber(ARGV[11])
local place = {
  destination = destination, ordering = ordering, hash = KEYS[3], waiting = KEYS[4],
  messages = KEYS[5], attempts = KEYS[6], delayed = KEYS[7], builtin = KEYS[14], worker = KEYS[15],
  wake = KEYS[16],
}
expect_waiting(place)
expect('HLEN', KEYS[5], KEYS[6], KEYS[9], KEYS[11], KEYS[18], KEYS[22])
expect('ZCARD', KEYS[7], KEYS[8], KEYS[10], KEYS[12], KEYS[13], KEYS[19], KEYS[21], KEYS[23], KEYS[24], KEYS[25])
expect('SCARD', KEYS[20])
local damaged_lanes = {}
for i = 26, #KEYS do
  if not try('ZCARD', KEYS[i]) then damaged_lanes[math.floor((i - 24) / 2)] = true end
end

-- The record as a tombstone: marked, and without its body. Of an unreadable record, keeps only the accounted
-- bytes, if they can be found.
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
  local head = table.concat({text(now), stage, #ARGV[8], #attempts}, ' ')
  redis.call('HSET', KEYS[11], sequence, head .. ';' .. ARGV[8] .. attempts .. record)
  redis.call('ZADD', KEYS[10], sequence, sequence)
  redis.call('ZADD', KEYS[19], text(now), sequence)
end

local letters_max = tonumber(ARGV[12])
local room_for_letters = letters_max == 0 and math.huge or letters_max - redis.call('ZCARD', KEYS[10])

-- A list up to this length is searched for each message to remove.
local LIST_MAX = 1000
-- With more leases than this, the script does not look up which messages have one.
local LEASES_MAX = 20000
local is_short = ordering == 'none' or redis.call('LLEN', KEYS[4]) <= LIST_MAX
local leased, to_note = nil, {}

-- True if there may be a lease on this message. Reads all leases once.
local function is_leased(sequence)
  if not leased then
    leased = {all = redis.call('ZCARD', KEYS[21]) > LEASES_MAX}
    local prefix = destination .. '/'
    for _, member in ipairs(leased.all and {} or redis.call('ZRANGE', KEYS[21], 0, -1)) do
      if string.sub(member, 1, #prefix) == prefix then
        leased[string.match(member, '^%d+', #prefix + 1)] = true
      end
    end
  end
  return leased.all or leased[sequence]
end

local function forget_withdrawal(sequence)
  forget_withdrawals(KEYS[3], KEYS[9], KEYS[25], destination, sequence)
end

-- 'held' if a consumer holds this message, 'accepted' if one has accepted it, and the owner has not settled it.
local function by_consumer(lane, sequence)
  if known[3] ~= 'pull' then return end
  local entry = read_lease(KEYS[22], ordering == 'none' and sequence or lane)
  if tonumber(sequence) <= entry.accepted then return 'accepted' end
  if has_consumer(entry, now) and lease_covers(entry, sequence) then return 'held' end
end

-- What becomes of a message that is ready.
local function take_ready(lane, sequence)
  local state = no_sender_delivers and (by_consumer(lane, sequence) or 'ready') or 'in_use'
  if state == 'accepted' and is_owner then
    -- It came too late: the owner releases the message again, and settles it.
    forget_withdrawal(sequence)
    return 'settled'
  end
  return state == 'ready' and 'ready' or 'in_use'
end

-- Finds the state of a pending message, and removes it from there unless it must not leave now.
local function take_out(lane, sequence, in_progress, ready)
  local member = destination .. '/' .. sequence
  if redis.call('ZREM', KEYS[8], sequence) == 1 then
    if not redis.call('ZSCORE', ready, sequence) then return 'halted' end
    redis.call('HINCRBY', KEYS[3], 'halted_ready', -1)
    return 'ready'
  elseif by_policy then
    -- An operator has handled it meanwhile.
    return 'settled'
  elseif redis.call('ZSCORE', ready, sequence) then
    return take_ready(ARGV[12 + lane], sequence)
  elseif redis.call('ZREM', KEYS[7], member) == 1 then
    redis.call('HINCRBY', KEYS[3], 'delayed', -1)
    return 'delayed'
  elseif serial and first_unfinished(in_progress, ready) ~= sequence then
    redis.call('HINCRBY', KEYS[3], 'awaiting_turn', -1)
    return 'awaiting_turn'
  end
  if not is_short then
    if is_leased(sequence) then return 'in_use' end
    to_note[#to_note + 1] = sequence
    return 'waiting'
  end
  local taken
  if ordering == 'none' then
    taken = redis.call('ZREM', KEYS[4], sequence)
  else
    taken = redis.call('LREM', KEYS[4], 1, sequence)
  end
  return taken == 1 and 'waiting' or 'in_use'
end

local function request_withdrawal(lane_key, sequence)
  local text_of = how .. #lane_key .. ' ' .. lane_key .. ARGV[8]
  if redis.call('HSETNX', KEYS[9], sequence, text_of) == 0 then return end
  redis.call('HINCRBY', KEYS[3], 'withdrawals', 1)
  redis.call('ZADD', KEYS[25], '0', destination)
  wake(KEYS[17], destination)
end

-- The stage that the message had reached, and its attempts with the last error, if that is the reason.
local function stage_and_attempts(sequence, state)
  local attempts = attempts_of(KEYS[6], sequence)
  local stage = state == 'ready' and 'delivery' or 'transform'
  if attempts[4] ~= '' then stage = attempts[4] end
  if ARGV[10] ~= '' then
    attempts[1] = tonumber(ARGV[9])
    note_error(attempts, now, ARGV[10])
  end
  return stage, cmsgpack.pack(attempts)
end

local records, tombstones = {}, {}
for i = 13 + lane_count, #ARGV, 2 do
  local record = redis.call('HGET', KEYS[5], ARGV[i + 1]) or ''
  records[ARGV[i + 1]] = record
  if string.sub(record, 1, 1) ~= 'T' then tombstones[ARGV[i + 1]] = tombstone_of(record) end
end

local answer = {}
for i = 13 + lane_count, #ARGV, 2 do
  local lane, sequence = tonumber(ARGV[i]), ARGV[i + 1]
  local lane_key = ARGV[12 + lane]
  local in_progress, ready = KEYS[24 + 2 * lane], KEYS[25 + 2 * lane]
  local record = records[sequence]
  local state = damaged_lanes[lane] and 'damaged' or 'settled'
  if not damaged_lanes[lane] and redis.call('ZSCORE', in_progress, sequence) then
    if string.sub(record, 1, 1) ~= 'T' then
      local is_full = how == 's' and room_for_letters <= 0
      state = is_full and 'full' or take_out(lane, sequence, in_progress, ready)
    else
      -- Its transform dropped it meanwhile, which ends the withdrawal.
      forget_withdrawal(sequence)
    end
  end
  if state == 'settled' or state == 'full' or state == 'damaged' then
    answer[#answer + 1] = state
  elseif state == 'in_use' then
    request_withdrawal(lane_key, sequence)
    answer[#answer + 1] = 'withdrawing'
  else
    local stage, attempts = stage_and_attempts(sequence, state)
    if how == 's' then
      write_letter(sequence, record, stage, attempts)
      room_for_letters = room_for_letters - 1
    elseif bytes_apart(record) > 0 then
      redis.call('HDEL', KEYS[18], sequence)
    end
    redis.call('HSET', KEYS[5], sequence, tombstones[sequence])
    records[sequence] = tombstones[sequence]
    redis.call('HDEL', KEYS[6], sequence)
    forget_withdrawal(sequence)
    if state ~= 'ready' then
      redis.call('ZADD', ready, sequence, sequence)
      redis.call('HINCRBY', KEYS[3], 'ready', 1)
      if serial and state ~= 'awaiting_turn' then advance(place, in_progress, ready, now) end
    end
    if is_head(ordering, in_progress, sequence) then
      local key = ordering == 'none' and sequence or lane_key
      may_leave(KEYS[12], KEYS[13], destination, ordering, key, '0')
      if known[3] == 'pull' then
        redis.call('ZADD', KEYS[23], '0', key)
        redis.call('ZADD', KEYS[24], '0', destination)
      end
      wake(KEYS[17], destination)
    end
    answer[#answer + 1] = 'done'
  end
end
if #to_note > 0 then note_withdrawn(KEYS[3], KEYS[20], to_note) end
return answer
