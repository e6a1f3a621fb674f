#!lua flags=allow-oom
-- repair: compares the sets and records of a destination for some of its messages, and repairs contradictions. It never
-- changes healthy messages, even if they change state meanwhile: the caller only says which messages to check.
--
-- Returns: {how many messages were checked; a list with 3 per finding: kind, what, 1 if it was repaired; {pending,
--   ready, halted and ready, awaiting turn, bytes, sequence that the caller must look for in the whole waiting list
--   …}}: no call searches a long list
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, expect, attempts, head, wake, waiting, serial, out_of_line, bodies, withdrawn, orphan_bodies, repair_report

check_schema(key_epoch)
local known = redis.call('HMGET', key_destination, 'version', 'deleted', 'last')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local serial, may_repair, now = processing == 'serial', repairs == '1', now_ms()
local last_stamped = tonumber(known[3]) or 0
local place = {
  destination = destination, ordering = ordering, hash = key_destination, waiting = key_waiting,
  messages = key_messages, attempts = key_attempts, delayed = key_delayed, builtin = key_active_builtin,
  worker = key_active_worker, wake = key_wake_waiting,
}
local findings = {}

-- With more leases than this, the script does not look up which messages have one.
local LEASES_MAX = 20000
-- The script searches a waiting list of up to LIST_MAX entries. For a longer list, the caller says where it saw each
-- message. The script searches NEAR entries on both sides of that position, because the list may have moved since, and
-- 2 * NEAR entries at each end, where messages return. A call makes at most LOOKS_MAX such searches.
local LIST_MAX, NEAR, LOOKS_MAX = 1000, 500, 20

-- Adds a finding; returns whether to repair it.
local function find(kind, what, is_repaired)
  return note_finding(findings, kind, what, may_repair and is_repaired ~= false)
end

local function count_by(counter, change) redis.call('HINCRBY', key_destination, counter, change) end

local function is_type(key, expected)
  local kind = redis.call('TYPE', key)['ok']
  return kind == expected or kind == 'none'
end

expect(ordering == 'none' and 'ZCARD' or 'LLEN', key_waiting)
expect('HLEN', key_messages, key_attempts, key_withdrawals, key_dead_letter_messages, key_bodies, key_log)
expect('ZCARD', key_leases, key_delayed, key_halted, key_dead_letters, key_dead_lettered_at, key_releasable, key_lanes,
  key_withdrawing, active_of(place))
expect('SCARD', key_withdrawn)

local leased, looks = nil, 0

-- True if somebody may hold a lease on this message. Reads all leases once.
local function is_leased(sequence)
  if not leased then
    leased = {all = redis.call('ZCARD', key_leases) > LEASES_MAX}
    local prefix = destination .. '/'
    for _, member in ipairs(leased.all and {} or redis.call('ZRANGE', key_leases, 0, -1)) do
      if string.sub(member, 1, #prefix) == prefix then
        leased[string.match(member, '^%d+', #prefix + 1) or ''] = true
      end
    end
  end
  return leased.all or leased[sequence]
end

-- Whether this script can search the whole list itself.
local is_searched = ordering == 'none' or redis.call('LLEN', key_waiting) <= LIST_MAX
local ends

-- Adds the positions of the entries `listed`, which begin at the index `from`.
local function note_places(places, from, listed)
  for i, sequence in ipairs(listed) do places[sequence] = from + i - 1 end
  return places
end

-- The position of a waiting message, or nil if it does not wait; false if it was seen in the list
-- (`at.places`) but is no longer near that position.
local function place_of(sequence, at)
  if ordering == 'none' then return redis.call('ZSCORE', key_waiting, sequence) or nil end
  if is_searched then return redis.call('LPOS', key_waiting, sequence, 'MAXLEN', LIST_MAX) or nil end
  for place in string.gmatch(at.places, '%-%d+') do
    place = tonumber(place)
    if redis.call('LRANGE', key_waiting, place, place)[1] == sequence then return place end
    looks = looks + 1
    local from = place - NEAR
    local near = redis.call('LRANGE', key_waiting, from, math.min(-1, place + NEAR))
    -- The range may begin before the list does.
    from = math.max(from, -redis.call('LLEN', key_waiting))
    local found = note_places({}, from, near)[sequence]
    if found then return found end
  end
  if not ends then
    looks = looks + 2
    ends = note_places({}, 0, redis.call('LRANGE', key_waiting, 0, 2 * NEAR - 1))
    note_places(ends, -2 * NEAR, redis.call('LRANGE', key_waiting, -2 * NEAR, -1))
  end
  if ends[sequence] then return ends[sequence] end
  if at.places == '' then return nil end
  return false
end

-- Removes a message from the waiting list. Inside a long list, replaces the entry instead: with leading
-- zeros it is not a sequence, and claims skip it.
local function remove_listed(sequence, place)
  if ordering == 'none' then
    redis.call('ZREM', key_waiting, sequence)
  elseif is_searched then
    redis.call('LREM', key_waiting, '0', sequence)
  else
    local blank = '0' .. sequence
    while redis.call('SISMEMBER', key_withdrawn, blank) == 1 do blank = '0' .. blank end
    redis.call('LSET', key_waiting, place, blank)
    note_withdrawn(key_destination, key_withdrawn, {blank})
  end
end

-- True if the record is readable and its body exists.
local function is_whole(sequence, record, flags)
  local length = string.match(flags, 'u(%d+);')
  if length and #record == tonumber(length) then return false end
  local apart = bytes_out_of_line(record)
  return apart == 0 or redis.call('HSTRLEN', key_bodies, sequence) == apart
end

-- Lanes whose sets have the wrong type. Removes a wrong `ready`: the messages are checked one by one.
local is_wrong = {}
for number, lane in ipairs(lanes) do
  if not is_type(lane.in_progress, 'zset') then
    is_wrong[number] = true
    find('wrong_lane', lane.key, false)
  elseif not is_type(lane.ready, 'zset') then
    is_wrong[number] = not may_repair
    if find('wrong_type', lane.ready) then redis.call('UNLINK', lane.ready) end
  end
end

local unfinished = {}

-- True if this message of a serial lane must wait for unfinished ones before it.
local function is_held(lane, sequence)
  if not serial then return false end
  if unfinished[lane] == nil then
    unfinished[lane] = first_unfinished(lanes[lane].in_progress, lanes[lane].ready) or ''
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
  redis.call('ZREM', key_halted, sequence)
  if redis.call('ZREM', key_delayed, member) == 1 then count_by('delayed', -1) end
  forget_withdrawals(key_destination, key_withdrawals, key_withdrawing, destination, sequence)
  redis.call('HDEL', key_attempts, sequence)
  redis.call('HDEL', key_messages, sequence)
end

-- A record that no lane holds cannot be delivered in order any more: make it a dead letter, for an operator.
local function set_aside(sequence, record, at)
  local reason, left = 'repair: no lane held this message', cmsgpack.pack(attempts_of(key_attempts, sequence))
  local head = table.concat({text(now), at.ready and 'delivery' or 'transform', #reason, #left}, ' ')
  redis.call('HSET', key_dead_letter_messages, sequence, head .. ';' .. reason .. left .. record)
  redis.call('ZADD', key_dead_letters, sequence, sequence)
  redis.call('ZADD', key_dead_lettered_at, text(now), sequence)
  remove_everywhere(sequence, at)
end

-- Halts a pending message whose data is incomplete: an operator can see it, and skip or cancel it.
local function halt_damaged(sequence, at)
  local attempts = attempts_of(key_attempts, sequence)
  local stage = at.ready and 'delivery' or 'transform'
  attempts[4] = stage
  note_error(attempts, now, '{"stage":"' .. stage .. '","kind":"damaged","detail":"repair: its record '
    .. 'or its body is missing, or cannot be read"}')
  keep_attempts(key_attempts, sequence, attempts)
  redis.call('ZADD', key_halted, text(now), sequence)
  if at.ready then count_by('halted_ready', 1) end
  if redis.call('ZREM', key_delayed, destination .. '/' .. sequence) == 1 then count_by('delayed', -1) end
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
  local attempts = attempts_of(key_attempts, sequence)
  redis.call('SREM', key_withdrawn, sequence)
  if attempts[4] ~= '' then
    redis.call('ZADD', key_halted, text(now), sequence)
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
        remove_unnamed_bodies(key_messages, key_dead_letter_messages, key_log, key_bodies, sequence)
      end
    end
  elseif at.ready or at.halted or at.delayed or at.withdrawing
    or redis.call('HEXISTS', key_attempts, sequence) == 1 then
    if find('left_over', sequence) then remove_everywhere(sequence, at) end
  end
end

-- Checks a message for which it matters whether it waits. A message in another state must not be in the waiting list; a
-- message in no other state must be; a damaged message is halted.
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
    if place and redis.call('SISMEMBER', key_withdrawn, sequence) == 0
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
      redis.call('ZREM', lanes[lane].in_progress, sequence)
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
      redis.call('ZREM', key_delayed, destination .. '/' .. sequence)
      count_by('delayed', -1)
    end
  elseif not (at.ready or at.halted or at.delayed or at.was_listed or held or is_leased(sequence)) then
    check_listed(lane, sequence, at, flags, false)
  end
  return held
end

local function check_hint(lane, sequence, at)
  -- A message with a pending withdrawal needs its hint, too: the withdrawal may end without one if the message was
  -- dropped meanwhile.
  if not at.ready or at.halted then return end
  local in_progress = lanes[lane].in_progress
  if not is_head(ordering, in_progress, sequence) then return end
  local key = ordering == 'none' and sequence or lanes[lane].key
  local of_destination = redis.call('ZSCORE', key_releasable, destination)
  local of_lane = of_destination
  if ordering ~= 'destination' then of_lane = redis.call('ZSCORE', key_lanes, key) end
  if of_destination and of_lane and tonumber(of_destination) <= tonumber(of_lane) then return end
  if find('hint', sequence) then
    may_leave(key_releasable, key_lanes, destination, ordering, key, sequence)
    wake(key_wake_releasable, destination)
  end
end

-- Checks a message after the caller has read the whole list. Its other data was already compared.
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
  local record = redis.call('HGET', key_messages, sequence)
  local at = {
    lane = lane, halted = redis.call('ZSCORE', key_halted, sequence),
    delayed = redis.call('ZSCORE', key_delayed, member),
    withdrawing = redis.call('HEXISTS', key_withdrawals, sequence) == 1,
    was_listed = string.find(flags, 'w', 1, true) ~= nil,
    places = string.match(flags, 'l([%d,-]*);'),
  }
  if lane > 0 then
    at.ready_key = lanes[lane].ready
    at.ready = redis.call('ZSCORE', at.ready_key, sequence)
    at.is_pending = redis.call('ZSCORE', lanes[lane].in_progress, sequence)
  end
  if at.places then return check_again(lane, sequence, record, at, flags) end
  -- The message was seen waiting, but has another state: most such messages have just moved on.
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
for _, message in ipairs(messages) do
  if looks >= LOOKS_MAX then break end
  check(tonumber(message.lane), message.sequence, message.flags)
  count = count + 1
end
if #to_wait > 0 then to_front(place, to_wait) end

-- Hints for the whole destination.
local length = redis.call(ordering == 'none' and 'ZCARD' or 'LLEN', key_waiting)
if length > 0 and not redis.call('ZSCORE', active_of(place), destination) then
  if find('hint', destination) then
    redis.call('ZADD', active_of(place), '0', destination)
    wake(key_wake_waiting, destination)
  end
end
if redis.call('HLEN', key_withdrawals) > 0 and not redis.call('ZSCORE', key_withdrawing, destination) then
  if find('hint', destination) then
    redis.call('ZADD', key_withdrawing, '0', destination)
    wake(key_wake_releasable, destination)
  end
end
local summed = {}
for i = 1, 5 do summed[i] = text(sums[i]) end
for _, sequence in ipairs(to_look_for) do summed[#summed + 1] = sequence end
return {text(count), findings, summed}
