#!lua flags=allow-oom
-- repair: compares the sets and records of a destination for some of its messages, and repairs
-- contradictions. It never changes healthy messages, even if they change state meanwhile: the caller only
-- says which to check.
--
-- KEYS:
--   [1]  epoch             reseq:{p07}:epoch
--   [2]  destination       reseq:{p07}:d:<dest>
--   [3]  waiting           reseq:{p07}:d:<dest>:waiting
--   [4]  messages          reseq:{p07}:d:<dest>:messages
--   [5]  attempts          reseq:{p07}:d:<dest>:attempts
--   [6]  leases            reseq:{p07}:leases
--   [7]  delayed           reseq:{p07}:delayed
--   [8]  halted            reseq:{p07}:d:<dest>:halted
--   [9]  withdrawals            reseq:{p07}:d:<dest>:withdrawals
--   [10] dead              reseq:{p07}:d:<dest>:dead-letters
--   [11] letters           reseq:{p07}:d:<dest>:dead-letter-messages
--   [12] dead_at           reseq:{p07}:d:<dest>:dead-lettered-at
--   [13] bodies            reseq:{p07}:d:<dest>:bodies
--   [14] log               reseq:{p07}:d:<dest>:log
--   [15] releasable        reseq:{p07}:releasable
--   [16] lanes             reseq:{p07}:d:<dest>:lanes
--   [17] active_builtin    reseq:{p07}:active:builtin
--   [18] active_worker     reseq:{p07}:active:worker
--   [19] wake_waiting      reseq:{p07}:wake:waiting
--   [20] wake_releasable   reseq:{p07}:wake:releasable
--   [21] withdrawn         reseq:{p07}:d:<dest>:withdrawn
--   [22] withdrawing       reseq:{p07}:withdrawing
--   [23…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] destination  [2] definition version  [3] 'destination', 'key' or 'none'  [4] 'parallel' or
--   'serial'  [5] '1' to repair, '' only to report  [6] number of lanes; then the lanes' keys; then 3 per
--   message: its lane (from 1; 0: no lane holds it), sequence, '' or some of 'w' (it was seen waiting), 'f'
--   (its processing is finished), 'u<length>;' (its record of that length cannot be read),
--   'l<position>,<position>;' (the whole waiting list was read again for it, and this is where it was seen,
--   counted from the end: -1 is the last; none: nowhere)
-- Returns: {how many messages were checked; a list with 3 per finding: kind, what, 1 if it was repaired;
--   {pending, ready, halted and ready, awaiting turn, bytes, sequence to read the whole waiting list for …}}:
--   no call searches a long list
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, expect, attempts, head, wake, waiting, serial, apart, bodies, withdrawn, unnamed, findings

check_schema(KEYS[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted', 'last')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[2] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local destination, ordering, serial, repairs = ARGV[1], ARGV[3], ARGV[4] == 'serial', ARGV[5] == '1'
local lane_count, now = tonumber(ARGV[6]), now_ms()
local first, last_stamped = 7 + lane_count, tonumber(known[3]) or 0
local place = {
  destination = destination, ordering = ordering, hash = KEYS[2], waiting = KEYS[3],
  messages = KEYS[4], attempts = KEYS[5], delayed = KEYS[7], builtin = KEYS[17], worker = KEYS[18],
  wake = KEYS[19],
}
local findings = {}

-- With more leases than this, the script does not look up which messages have one.
local LEASES_MAX = 20000
-- A waiting list up to this length is searched. For a longer one, the caller says where it saw each message:
-- search this many entries around that position, because the list may have moved since, and this many at both
-- ends, where messages return. A call makes at most this many such searches.
local LIST_MAX, NEAR, LOOKS_MAX = 1000, 500, 20

-- Adds a finding; returns whether to repair it.
local function find(kind, what, is_repaired)
  return note_finding(findings, kind, what, repairs and is_repaired ~= false)
end

local function count_by(counter, change) redis.call('HINCRBY', KEYS[2], counter, change) end

local function is_type(key, expected)
  local kind = redis.call('TYPE', key)['ok']
  return kind == expected or kind == 'none'
end

expect_waiting(place)
expect('HLEN', KEYS[4], KEYS[5], KEYS[9], KEYS[11], KEYS[13], KEYS[14])
expect('ZCARD', KEYS[6], KEYS[7], KEYS[8], KEYS[10], KEYS[12], KEYS[15], KEYS[16], KEYS[22])
expect('SCARD', KEYS[21])

local leased, looks = nil, 0

-- True if somebody may hold a lease on this message. Reads all leases once.
local function is_leased(sequence)
  if not leased then
    leased = {all = redis.call('ZCARD', KEYS[6]) > LEASES_MAX}
    local prefix = destination .. '/'
    for _, member in ipairs(leased.all and {} or redis.call('ZRANGE', KEYS[6], 0, -1)) do
      if string.sub(member, 1, #prefix) == prefix then
        leased[string.match(member, '^%d+', #prefix + 1) or ''] = true
      end
    end
  end
  return leased.all or leased[sequence]
end

-- Whether this script can search the whole list itself.
local is_searched = ordering == 'none' or redis.call('LLEN', KEYS[3]) <= LIST_MAX
local ends

-- Adds the position of each of these, starting at an index of the list.
local function note_places(places, from, listed)
  for i, sequence in ipairs(listed) do places[sequence] = from + i - 1 end
  return places
end

-- The position of a waiting message, or nil if it does not wait; false if it was seen in the list
-- (`at.places`) but is no longer near that position.
local function place_of(sequence, at)
  if ordering == 'none' then return redis.call('ZSCORE', KEYS[3], sequence) or nil end
  if is_searched then return redis.call('LPOS', KEYS[3], sequence, 'MAXLEN', LIST_MAX) or nil end
  for place in string.gmatch(at.places, '%-%d+') do
    place = tonumber(place)
    if redis.call('LRANGE', KEYS[3], place, place)[1] == sequence then return place end
    looks = looks + 1
    local from = place - NEAR
    local near = redis.call('LRANGE', KEYS[3], from, math.min(-1, place + NEAR))
    -- The range may begin before the list does.
    from = math.max(from, -redis.call('LLEN', KEYS[3]))
    local found = note_places({}, from, near)[sequence]
    if found then return found end
  end
  if not ends then
    looks = looks + 2
    ends = note_places({}, 0, redis.call('LRANGE', KEYS[3], 0, 2 * NEAR - 1))
    note_places(ends, -2 * NEAR, redis.call('LRANGE', KEYS[3], -2 * NEAR, -1))
  end
  if ends[sequence] then return ends[sequence] end
  if at.places == '' then return nil end
  return false
end

-- Removes a message from the waiting list. Inside a long list, replaces the entry instead: with leading
-- zeros it is not a sequence, and claims skip it.
local function remove_listed(sequence, place)
  if ordering == 'none' then
    redis.call('ZREM', KEYS[3], sequence)
  elseif is_searched then
    redis.call('LREM', KEYS[3], '0', sequence)
  else
    local blank = '0' .. sequence
    while redis.call('SISMEMBER', KEYS[21], blank) == 1 do blank = '0' .. blank end
    redis.call('LSET', KEYS[3], place, blank)
    note_withdrawn(KEYS[2], KEYS[21], {blank})
  end
end

-- True if the record is readable and its body exists.
local function is_whole(sequence, record, flags)
  local length = string.match(flags, 'u(%d+);')
  if length and #record == tonumber(length) then return false end
  local apart = bytes_apart(record)
  return apart == 0 or redis.call('HSTRLEN', KEYS[13], sequence) == apart
end

-- Lanes whose sets have the wrong type. A wrong `ready` is emptied: the messages are checked one by one.
local is_wrong = {}
for lane = 1, lane_count do
  local in_progress, ready = KEYS[21 + 2 * lane], KEYS[22 + 2 * lane]
  if not is_type(in_progress, 'zset') then
    is_wrong[lane] = true
    find('wrong_lane', ARGV[6 + lane], false)
  elseif not is_type(ready, 'zset') then
    is_wrong[lane] = not repairs
    if find('wrong_type', ready) then redis.call('UNLINK', ready) end
  end
end

local unfinished = {}

-- True if this message of a serial lane must wait for unfinished ones before it.
local function is_held(lane, sequence)
  if not serial then return false end
  if unfinished[lane] == nil then
    unfinished[lane] = first_unfinished(KEYS[21 + 2 * lane], KEYS[22 + 2 * lane]) or ''
  end
  return unfinished[lane] ~= sequence
end

local function remove_everywhere(sequence, at)
  local member = destination .. '/' .. sequence
  if at.ready then
    redis.call('ZREM', at.ready_key, sequence)
    count_by('ready', -1)
    if at.halted then count_by('halted_ready', -1) end
  end
  redis.call('ZREM', KEYS[8], sequence)
  if redis.call('ZREM', KEYS[7], member) == 1 then count_by('delayed', -1) end
  forget_withdrawals(KEYS[2], KEYS[9], KEYS[22], destination, sequence)
  redis.call('HDEL', KEYS[5], sequence)
  redis.call('HDEL', KEYS[4], sequence)
end

-- A record that no lane holds cannot be delivered in order any more: make it a dead letter, for an operator.
local function set_aside(sequence, record, at)
  local reason, left = 'repair: no lane held this message', cmsgpack.pack(attempts_of(KEYS[5], sequence))
  local head = table.concat({text(now), at.ready and 'delivery' or 'transform', #reason, #left}, ' ')
  redis.call('HSET', KEYS[11], sequence, head .. ';' .. reason .. left .. record)
  redis.call('ZADD', KEYS[10], sequence, sequence)
  redis.call('ZADD', KEYS[12], text(now), sequence)
  remove_everywhere(sequence, at)
end

-- Halts a pending message whose data is incomplete: an operator can see it, and skip or cancel it.
local function halt_damaged(sequence, at)
  local attempts = attempts_of(KEYS[5], sequence)
  local stage = at.ready and 'delivery' or 'transform'
  attempts[4] = stage
  note_error(attempts, now, '{"stage":"' .. stage .. '","kind":"damaged","detail":"repair: its record '
    .. 'or its body is missing, or cannot be read"}')
  keep_attempts(KEYS[5], sequence, attempts)
  redis.call('ZADD', KEYS[8], text(now), sequence)
  if at.ready then count_by('halted_ready', 1) end
  if redis.call('ZREM', KEYS[7], destination .. '/' .. sequence) == 1 then count_by('delayed', -1) end
end

local to_wait = {}

local function make_ready(lane, sequence, at)
  redis.call('ZADD', at.ready_key, sequence, sequence)
  count_by('ready', 1)
  at.ready = sequence
  unfinished[lane] = nil
end

-- Returns a message without any state to processing, or to the state it had.
local function put_back(lane, sequence, at, flags)
  local attempts = attempts_of(KEYS[5], sequence)
  redis.call('SREM', KEYS[21], sequence)
  if attempts[4] ~= '' then
    redis.call('ZADD', KEYS[8], text(now), sequence)
  elseif string.find(flags, 'f', 1, true) then
    make_ready(lane, sequence, at)
  else
    to_wait[#to_wait + 1] = sequence
  end
end

local sums, to_look_for = {0, 0, 0, 0, 0}, {}

local function count_pending(at, record, held)
  sums[1] = sums[1] + 1
  if at.ready then sums[2] = sums[2] + 1 end
  if at.ready and at.halted then sums[3] = sums[3] + 1 end
  if held then sums[4] = sums[4] + 1 end
  local rest = string.gsub(string.sub(record or '', 1, 60), '^T.', '')
  local accounted_bytes = string.match(rest, '^%d(%d+),') or string.match(rest, '^[^,]-;%d(%d+),')
  sums[5] = sums[5] + (tonumber(accounted_bytes) or 0)
end

-- Checks a message that no lane holds.
local function check_stray(sequence, record, at, flags)
  if record then
    local is_letter = string.sub(record, 1, 1) ~= 'T' and not string.find(flags, 'u', 1, true)
    if at.lane == 0 and is_letter then return end
    if find('no_lane', sequence) then
      if is_letter then
        set_aside(sequence, record, at)
      else
        remove_everywhere(sequence, at)
        remove_unnamed_bodies(KEYS[4], KEYS[11], KEYS[14], KEYS[13], sequence)
      end
    end
  elseif at.ready or at.halted or at.delayed or at.withdrawing
    or redis.call('HEXISTS', KEYS[5], sequence) == 1 then
    if find('left_over', sequence) then remove_everywhere(sequence, at) end
  end
end

-- Checks a message for which it matters whether it waits: one in another state must not, one in no other
-- state must, and a damaged one is halted.
local function check_listed(lane, sequence, at, flags, is_damaged)
  if not is_searched and not at.places then
    to_look_for[#to_look_for + 1] = sequence
    return
  end
  local place = place_of(sequence, at)
  local stands = not at.is_pending or at.ready or at.halted or at.delayed
  if place == false then return end
  if stands then
    -- Claims skip withdrawn messages.
    if place and redis.call('SISMEMBER', KEYS[21], sequence) == 0
      and find(at.is_pending and 'twice' or 'left_over', sequence) then
      remove_listed(sequence, place)
    end
  elseif is_damaged then
    if find('damaged', sequence) then
      if place then remove_listed(sequence, place) end
      halt_damaged(sequence, at)
    end
  elseif not place and find('nowhere', sequence) then
    put_back(lane, sequence, at, flags)
  end
end

-- Checks a pending message. Returns true if it awaits its turn behind another one.
local function check_pending(lane, sequence, record, at, flags)
  local held = not at.ready and is_held(lane, sequence)
  if tonumber(sequence) > last_stamped then
    if find('left_over', sequence) then
      redis.call('ZREM', KEYS[21 + 2 * lane], sequence)
      remove_everywhere(sequence, at)
    end
  elseif not record or not is_whole(sequence, record, flags) then
    if at.halted or held or is_leased(sequence) then return held end
    if at.was_listed and not (at.ready or at.delayed) then
      check_listed(lane, sequence, at, flags, true)
    elseif find('damaged', sequence) then
      halt_damaged(sequence, at)
    end
  elseif string.sub(record, 1, 1) == 'T' then
    if not at.ready and find('nowhere', sequence) then make_ready(lane, sequence, at) end
  elseif at.delayed and (at.ready or at.halted) then
    if find('twice', sequence) then
      redis.call('ZREM', KEYS[7], destination .. '/' .. sequence)
      count_by('delayed', -1)
    end
  elseif not (at.ready or at.halted or at.delayed or at.was_listed or held or is_leased(sequence)) then
    check_listed(lane, sequence, at, flags, false)
  end
  return held
end

local function check_hint(lane, sequence, at)
  -- Also with a pending withdrawal: it may end without a hint if the message was dropped meanwhile.
  if not at.ready or at.halted then return end
  local in_progress = KEYS[21 + 2 * lane]
  if not is_head(ordering, in_progress, sequence) then return end
  local key = ordering == 'none' and sequence or ARGV[6 + lane]
  local of_destination = redis.call('ZSCORE', KEYS[15], destination)
  local of_lane = of_destination
  if ordering ~= 'destination' then of_lane = redis.call('ZSCORE', KEYS[16], key) end
  if of_destination and of_lane and tonumber(of_destination) <= tonumber(of_lane) then return end
  if find('hint', sequence) then
    may_leave(KEYS[15], KEYS[16], destination, ordering, key, sequence)
    wake(KEYS[20], destination)
  end
end

-- Checks a message for which the whole list was read. Its other data was already compared.
local function check_again(lane, sequence, record, at, flags)
  local stands = not at.is_pending or at.ready or at.halted or at.delayed
  if stands then return check_listed(lane, sequence, at, flags, false) end
  if not at.ready and is_held(lane, sequence) or is_leased(sequence) then return end
  if record and string.sub(record, 1, 1) == 'T' then return end
  local is_damaged = not record or not is_whole(sequence, record, flags)
  check_listed(lane, sequence, at, flags, is_damaged)
end

-- Checks one message.
local function check(lane, sequence, flags)
  if lane > 0 and is_wrong[lane] then return end
  local member = destination .. '/' .. sequence
  local record = redis.call('HGET', KEYS[4], sequence)
  local at = {
    lane = lane, halted = redis.call('ZSCORE', KEYS[8], sequence),
    delayed = redis.call('ZSCORE', KEYS[7], member),
    withdrawing = redis.call('HEXISTS', KEYS[9], sequence) == 1,
    was_listed = string.find(flags, 'w', 1, true) ~= nil,
    places = string.match(flags, 'l([%d,-]*);'),
  }
  if lane > 0 then
    at.ready_key = KEYS[22 + 2 * lane]
    at.ready = redis.call('ZSCORE', at.ready_key, sequence)
    at.is_pending = redis.call('ZSCORE', KEYS[21 + 2 * lane], sequence)
  end
  if at.places then return check_again(lane, sequence, record, at, flags) end
  -- It was seen waiting but has another state: most such messages have just moved on.
  local is_double = at.was_listed and (not at.is_pending or at.ready or at.halted or at.delayed)
  if at.is_pending then
    local held = check_pending(lane, sequence, record, at, flags)
    count_pending(at, record, held)
    check_hint(lane, sequence, at)
  else
    check_stray(sequence, record, at, flags)
  end
  if is_double then check_listed(lane, sequence, at, flags, false) end
end

local count = 0
for i = first, #ARGV, 3 do
  if looks >= LOOKS_MAX then break end
  check(tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2])
  count = count + 1
end
if #to_wait > 0 then to_front(place, to_wait) end

-- Hints for the whole destination.
local length = redis.call(ordering == 'none' and 'ZCARD' or 'LLEN', KEYS[3])
if length > 0 and not redis.call('ZSCORE', active_of(place), destination) then
  if find('hint', destination) then
    redis.call('ZADD', active_of(place), '0', destination)
    wake(KEYS[19], destination)
  end
end
if redis.call('HLEN', KEYS[9]) > 0 and not redis.call('ZSCORE', KEYS[22], destination) then
  if find('hint', destination) then
    redis.call('ZADD', KEYS[22], '0', destination)
    wake(KEYS[20], destination)
  end
end
local summed = {}
for i = 1, 5 do summed[i] = text(sums[i]) end
for _, sequence in ipairs(to_look_for) do summed[#summed + 1] = sequence end
return {text(count), findings, summed}
