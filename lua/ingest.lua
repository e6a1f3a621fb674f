#!lua
-- ingest: stamps a batch of arrivals for one destination, in order, and stores them.
--
-- KEYS:
--   [1]  epoch             reseq:{p07}:epoch
--   [2]  call              reseq:{p07}:calls:<caller>
--   [3]  destination       reseq:{p07}:d:<dest>
--   [4]  waiting           reseq:{p07}:d:<dest>:waiting
--   [5]  messages          reseq:{p07}:d:<dest>:messages
--   [6]  active            reseq:{p07}:active:<builtin or worker>
--   [7]  releasable        reseq:{p07}:releasable
--   [8]  lanes             reseq:{p07}:d:<dest>:lanes
--   [9]  wake_waiting      reseq:{p07}:wake:waiting
--   [10] wake_releasable   reseq:{p07}:wake:releasable
--   [11] delayed           reseq:{p07}:delayed
--   [12] attempts          reseq:{p07}:d:<dest>:attempts
--   [13] unique            reseq:{p07}:d:<dest>:idempotency-keys
--   [14] dead              reseq:{p07}:d:<dest>:dead-letters
--   [15] letters           reseq:{p07}:d:<dest>:dead-letter-messages
--   [16] bodies            reseq:{p07}:d:<dest>:bodies
--   [17] dead_at           reseq:{p07}:d:<dest>:dead-lettered-at
--   [18] previous          reseq:{p07}:d:<dest>:previous
--   [19…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
--   […]   per idempotency key, with a window: seen reseq:{p07}:d:<dest>:idempotency:<idempotency key>
--   [last] if ids are remembered: ids reseq:{p07}:d:<dest>:ids
--   A short call is for one lane with ordering 'destination', parallel, no limit of bytes, no idempotency keys, ids,
--   options or bodies stored apart. It has only 1 to 6, 9 and the lane's in_progress; if there is nothing to process,
--   only 1 to 3, 5, 7, 10 and those of the lane.
-- ARGV:
--   [1] call number  [2] destination  [3] definition version  [4] epoch that the records carry
--   [5] `known` of include/epoch.lua  [6] 'waiting' or 'ready' (nothing to process)  [7] most pending messages
--   [8] most pending bytes (0: no limit)  [9] '<idempotency window, ms; 0: while the first is pending> <the most
--   idempotency keys to remember within it>'
--   [10] 'destination', 'key' or 'none'  [11] 'parallel' or 'serial'  [12] number of lanes
--   [13] number of idempotency keys in ARGV  [14] schema of the records  [15] number of arrivals  [16] the sum
--   of their accounted bytes  [17] number of bodies that are stored apart  [18] how many ids are remembered
--   (0: none); then the lanes' keys, then those idempotency keys, then the records; then, if there are several
--   lanes, the lane of each arrival (from 1); then, if ids are remembered, the id of each arrival; then 3 for
--   each body that is stored apart: its arrival (from 1), '' or 'i' (the body as it arrived), the
--   body; then 3 for each arrival with more: which (from 1), '' or '<idempotency key, from 1>:<digest> <id>',
--   options: '' or some of 'delay=<ms>;' 'due=<ms since 1970>;' 'priority=<0 to 9>;'
--   'replaces=<dead letter>,<its epoch>;' 'processed;' (already processed). A short call has only 1 to 7, 14 and 16,
--   then the records
-- Returns: {first sequence, {arrival, 'duplicate' | 'conflict' | 'backlog_full' | 'gone', sequence, epoch, id of
--   the message stamped before}…}; or {arrival, 'damaged', index in KEYS, '0', ''}: that key has the wrong type,
--   and nothing of the arrival was stored;
--   arrivals that are not listed were stamped, from the first sequence on, without gaps
-- Errors: STALE_CALL, LATE_CALL <ms since 1970>, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, STALE_EPOCH <epoch>,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, damage, wake, apart, hand_over, ingest_alone

-- The most ids beyond the limit that one call removes, in addition to one for each arrival.
local IDS_REMOVED_MAX = 1000
-- The index of the keys of the first lane.
local FIRST_LANE = 19

local is_short, needs_processing = #KEYS == 8, ARGV[6] == 'waiting'

local number = ARGV[1] + 0
local answered = replayed(KEYS[2], number)
-- Write it again, so that a wait for replicas or the disk has a write to wait for.
if answered and not answered.err then return keep(KEYS[2], number, answered) end
if answered then return answered end

local now = now_ms()
local partition_epoch, _, schema = current_epoch(KEYS[1], now, ARGV[5])
if schema ~= ARGV[is_short and 8 or 14] then return redis.error_reply('STALE_SCHEMA ' .. schema) end

local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'last', 'settled', 'born', 'bytes',
  'all_keys_known')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
local born = tonumber(known[5]) or 0
local epoch = math.max(partition_epoch, born)
if epoch ~= ARGV[4] + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end

local destination, last = ARGV[2], tonumber(known[3]) or 0
local room = ARGV[7] - (last - (tonumber(known[4]) or 0))
local pending_bytes = tonumber(known[6]) or 0

-- The fast path (include/ingest_alone.lua) is for short calls.
if is_short then
  local k, a, count, first = KEYS, ARGV, #ARGV - 9, last + 1
  local may_take, bytes = count <= FEW_ARRIVALS and count <= room, text(pending_bytes + a[9])
  if may_take and needs_processing then
    local length = ingest_alone(destination, k[4], k[5], k[6], k[8], first, count, 9)
    if length then
      redis.call('HSET', k[3], 'last', text(last + count), 'bytes', bytes)
      if length == count then wake(k[7], destination) end
      return keep(k[2], number, {first})
    end
  elseif may_take then
    local before = redis.call('HMGET', k[3], 'ready', 'withdrawals', 'delivery')
    local has_head = ingest_ready_alone(destination, k[4], k[5], k[7], k[8], first, count, 9)
    if has_head ~= nil then
      local ready = text((tonumber(before[1]) or 0) + count)
      redis.call('HSET', k[3], 'last', text(last + count), 'bytes', bytes, 'ready', ready)
      if has_head and count == 1 then
        wake_for_head(k[6], destination, a[3], before[1], before[2], before[3], text(partition_epoch), k[4], text(first),
          a[10])
      elseif has_head then
        wake(k[6], destination)
      end
      return keep(k[2], number, {first})
    end
  end
  KEYS = {k[1], k[2], k[3]}
  if needs_processing then
    KEYS[4], KEYS[5], KEYS[6], KEYS[9], KEYS[FIRST_LANE] = k[4], k[5], k[6], k[7], k[8]
  else
    KEYS[5], KEYS[7], KEYS[10], KEYS[FIRST_LANE], KEYS[FIRST_LANE + 1] = k[4], k[5], k[6], k[7], k[8]
  end
  ARGV = {a[1], a[2], a[3], a[4], a[5], a[6], a[7], '0', '0 0', 'destination', 'parallel', '1', '0', a[8], text(count),
    a[9], '0', '0', '', unpack(a, 10)}
end

-- The rest is for calls that cannot take the fast path.
-- include: expect, lists, attempts, waiting, bodies, dead_letters, remembered

local count = tonumber(ARGV[15])
local ordering, serial = ARGV[10], ARGV[11] == 'serial'
local window_ms, keys_max = string.match(ARGV[9], '^(%d+) (%d+)$')
window_ms = tonumber(window_ms)
local bytes, has_room_for_all = 0, ARGV[8] == '0'
local room_bytes = has_room_for_all and math.huge or tonumber(ARGV[8]) - pending_bytes
local lane_count, name_count = tonumber(ARGV[12]), tonumber(ARGV[13])
local body_count, ids_max = tonumber(ARGV[17]), tonumber(ARGV[18])
local function in_progress_of(lane) return KEYS[17 + 2 * lane] end
local function ready_of(lane) return KEYS[18 + 2 * lane] end
local function lane_key(lane) return ARGV[18 + lane] end
local function idempotency_key_of(index) return ARGV[18 + lane_count + index] end
local seen_base = 18 + 2 * lane_count
local record_base = 18 + lane_count + name_count
local lane_base = record_base + count
local id_base = lane_base + (lane_count > 1 and count or 0)
local body_base = id_base + (ids_max > 0 and count or 0)
-- The index in ARGV of each arrival's extra arguments.
local more = {}
for i = body_base + 3 * body_count + 1, #ARGV, 3 do more[tonumber(ARGV[i])] = i end

-- Checks once whether a key that only some arrivals need has the wrong type.
local damaged_keys = {}
local function is_damaged(command, key)
  if damaged_keys[key] == nil then damaged_keys[key] = not try(command, KEYS[key]) end
  return damaged_keys[key]
end

-- The last pending sequence of each lane; and, with serial processing, whether one of its messages is not processed.
-- For an unreadable lane, the index of its key in KEYS.
local previous, was_empty, busy, empty, damaged_lanes = {}, {}, {}, {}, {}
for lane = 1, lane_count do
  local found = try('ZRANGE', in_progress_of(lane), '-1', '-1')
  if not found then damaged_lanes[lane] = 17 + 2 * lane end
  previous[lane] = found and found[1]
  was_empty[lane] = not previous[lane]
  if found and was_empty[lane] and ordering == 'key' then empty[#empty + 1] = lane end
  if serial and not was_empty[lane] then
    if is_damaged('ZCARD', 18 + 2 * lane) then
      damaged_lanes[lane] = 18 + 2 * lane
    else
      busy[lane] = redis.call('ZCARD', in_progress_of(lane)) > redis.call('ZCARD', ready_of(lane))
    end
  end
  if not needs_processing and is_damaged('ZCARD', 18 + 2 * lane) then
    damaged_lanes[lane] = damaged_lanes[lane] or 18 + 2 * lane
  end
end

-- `previous` of the first message of an empty lane: the last sequence, as release.lua stored it; '0' if there
-- was none, '' if it may have been forgotten.
if #empty > 0 then
  local keys = {}
  for i, lane in ipairs(empty) do keys[i] = lane_key(lane) end
  for i, last_of_key in ipairs(redis.call('ZMSCORE', KEYS[18], unpack(keys))) do
    previous[empty[i]] = last_of_key or known[7] and '0' or ''
  end
end

-- The message stamped under an idempotency key, in this batch or before: {epoch, sequence, digest, id}; nil if
-- there is none. If that is unreadable: nil, and the index of the key in KEYS.
local stamped_here = {}
local function stamped_before(index)
  if stamped_here[index] then return stamped_here[index] end
  local key = window_ms == 0 and 13 or seen_base + index
  local kept
  if window_ms == 0 then
    kept = redis.pcall('HGET', KEYS[key], idempotency_key_of(index))
  else
    kept = redis.pcall('GET', KEYS[key])
  end
  if type(kept) == 'table' then return nil, key end
  if not kept then return nil end
  local in_epoch, sequence, deadline, digest, id =
    string.match(kept, '^(%d+) (%d+) (%d+) (%S+) ?(.*)$')
  if not in_epoch then return nil, key end
  if tonumber(in_epoch) < born then return nil end
  if window_ms == 0 then
    -- A tombstone is never delivered, so its key is free again.
    local record = redis.call('HGET', KEYS[5], sequence)
    if not record or string.sub(record, 1, 1) == 'T' then return nil end
  elseif tonumber(deadline) <= now then
    return nil
  end
  return {in_epoch, sequence, digest, id}
end

local first = last + 1
local answer = {first}
local pending, finished, first_ready, records = {}, {}, {}, {n = 0}
local waiting, delays, awaiting, remember, letters = {n = 0}, {}, 0, {}, {}
local awaiting_due, lanes_ready, ready_count, ids = {}, {n = 0}, 0, {n = 0}
for lane = 1, lane_count do pending[lane], finished[lane] = {n = 0}, {n = 0} end

local function accounted_bytes_of(record)
  return tonumber(string.match(record, '^%d(%d+),') or string.match(record, '^B%d+;%d(%d+),'))
end

-- Puts a prefix with fields that only this script knows in front of the record, but after the 'B<length>;' of
-- a body stored apart.
local function with_prefix(prefix, record)
  if string.byte(record) ~= 66 then return prefix .. record end
  local mark, rest = string.match(record, '^(B%d+;)(.*)$')
  return mark .. prefix .. rest
end

-- Gives a new sequence its first state: waiting, delayed, awaiting turn or ready.
local function set_state(lane, sequence, due, priority, is_finished)
  add(pending[lane], sequence, sequence)
  local is_delayed = due and due > now
  if is_finished and not is_delayed then
    add(finished[lane], sequence, sequence)
    ready_count = ready_count + 1
    if ordering == 'none' then
      add(lanes_ready, sequence, sequence)
    elseif was_empty[lane] and pending[lane].n == 2 then
      first_ready[lane] = sequence
    end
  elseif busy[lane] then
    awaiting = awaiting + 1
    if is_delayed then awaiting_due[#awaiting_due + 1] = {sequence, due} end
  else
    busy[lane] = serial
    if is_delayed then
      delays[#delays + 1] = text(due)
      delays[#delays + 1] = destination .. '/' .. sequence
    elseif ordering == 'none' then
      add(waiting, score_of(sequence, priority), sequence)
    else
      waiting.n = waiting.n + 1
      waiting[waiting.n] = sequence
    end
  end
end

-- Arrivals whose body must be stored apart but cannot be.
local cannot_store = {}
if body_count > 0 and is_damaged('HLEN', 16) then
  for i = body_base + 1, body_base + 3 * body_count, 3 do cannot_store[tonumber(ARGV[i])] = 16 end
end

-- The index in KEYS of a damaged key that an arrival's options need; nil if there is none.
local function damaged_of(lane, is_delayed, is_finished, letter)
  if letter then
    for _, one in ipairs({{'ZCARD', 14}, {'HLEN', 15}, {'HLEN', 16}, {'ZCARD', 17}}) do
      if is_damaged(one[1], one[2]) then return one[2] end
    end
  end
  if is_delayed and is_damaged('ZCARD', 11) then return 11 end
  if is_delayed and serial and is_damaged('HLEN', 12) then return 12 end
  if is_finished and is_damaged('ZCARD', 18 + 2 * lane) then return 18 + 2 * lane end
end

local left_out, stamped_as = 0, {}
-- Counts the idempotency keys within the window, if an arrival has one.
local counted, room_for_keys
for arrival = 1, count do
  local lane = lane_count > 1 and tonumber(ARGV[lane_base + arrival]) or 1
  local record, seen, options = ARGV[record_base + arrival], '', ''
  local at_more = more[arrival]
  if at_more then seen, options = ARGV[at_more + 1], ARGV[at_more + 2] end
  local accounted_bytes = has_room_for_all and 0 or accounted_bytes_of(record)
  local index, digest, id, before, damaged, letter, letter_epoch
  if seen ~= '' then
    index, digest, id = string.match(seen, '^(%d+):(%S+) ?(.*)$')
    index = tonumber(index)
    before, damaged = stamped_before(index)
    if window_ms > 0 and not counted then
      counted = counted_keys(redis.call('HGET', KEYS[3], 'remembered'), window_ms, now)
      room_for_keys = keys_max - remembered_keys(counted, window_ms, now)
    end
  end
  damaged = not before and (damaged or damaged_lanes[lane] or cannot_store[arrival])
  local due, priority, is_finished = nil, '4', not needs_processing
  if options ~= '' then
    letter, letter_epoch = string.match(options, 'replaces=(%d+),(%d+);')
    local delay, instant = string.match(options, 'delay=(%d+);'), string.match(options, 'due=(%d+);')
    due = delay and now + tonumber(delay) or tonumber(instant)
    priority = string.match(options, 'priority=(%d);') or '4'
    is_finished = is_finished or string.find(options, 'processed;', 1, true) ~= nil
    damaged = damaged or damaged_of(lane, (due or 0) > now, is_finished, letter)
  end
  local refusal
  if before then
    local is_same = before[3] == digest
    refusal = {arrival, is_same and 'duplicate' or 'conflict', before[2], before[1], before[4]}
  elseif damaged then
    refusal = {arrival, 'damaged', text(damaged), '0', ''}
  elseif letter and (letters[letter] or tonumber(letter_epoch) < born
      or not redis.call('ZSCORE', KEYS[14], letter)) then
    -- It was redriven or discarded before, or belongs to an earlier destination of this name.
    refusal = {arrival, 'gone', '0', '0', ''}
  elseif room <= 0 or room_bytes < accounted_bytes and pending_bytes + bytes > 0
      or index and counted and room_for_keys < 1 then
    -- Later arrivals of the batch must not overtake it.
    room = 0
    refusal = {arrival, 'backlog_full', '0', '0', ''}
  end
  if refusal then
    answer[#answer + 1] = refusal
    left_out = left_out + accounted_bytes_of(record)
  else
    last, room, room_bytes, bytes = last + 1, room - 1, room_bytes - accounted_bytes, bytes + accounted_bytes
    local sequence = text(last)
    if letter then letters[letter] = true end
    if ordering == 'key' then record = with_prefix('P' .. previous[lane] .. ';', record) end
    if ordering == 'none' then record = with_prefix('N' .. priority .. ';', record) end
    add(records, sequence, record)
    stamped_as[arrival] = sequence
    if ids_max > 0 then add(ids, sequence, ARGV[id_base + arrival]) end
    previous[lane] = sequence
    set_state(lane, sequence, due, priority, is_finished)
    if index then
      stamped_here[index] = {ARGV[4], sequence, digest, id}
      remember[#remember + 1] = {index, math.max(0, (due or 0) - now)}
      if counted then room_for_keys = room_for_keys - 1 end
    end
  end
end
if has_room_for_all then bytes = tonumber(ARGV[16]) - left_out end
local bodies = {n = 0}
for i = body_base + 1, body_base + 3 * body_count, 3 do
  local sequence = stamped_as[tonumber(ARGV[i])]
  if sequence then add(bodies, sequence .. ARGV[i + 1], ARGV[i + 2]) end
end

-- Removes the records again.
local function undo_records()
  for i = 1, records.n, 2 do redis.call('HDEL', KEYS[5], records[i]) end
end

-- Adds the new sequences to `waiting`. Together with the records these are the first writes: if a key has the
-- wrong type, the records are removed again.
local function store_waiting()
  if waiting.n == 0 then return end
  local add_command = ordering == 'none' and 'ZADD' or 'RPUSH'
  local answer = redis.pcall(add_command, KEYS[4], unpack(waiting, 1, waiting.n))
  local length = written_or(undo_records, answer)
  local added = length
  if ordering == 'none' then length = redis.call('ZCARD', KEYS[4]) else added = waiting.n end
  if length ~= added then return end
  -- It was empty.
  local function undo()
    redis.call('DEL', KEYS[4])
    undo_records()
  end
  written_or(undo, redis.pcall('ZADD', KEYS[6], '0', destination))
  wake(KEYS[9], destination)
end

-- The types of keys that few arrivals need.
if ready_count > 0 then expect('ZCARD', KEYS[7]) end
if ordering ~= 'destination' then expect('ZCARD', KEYS[8]) end
if ids_max > 0 then expect('ZCARD', KEYS[#KEYS]) end
if records.n > 0 then
  redis.call('HSET', KEYS[5], unpack(records, 1, records.n))
  store_waiting()
  redis.call('HSET', KEYS[3], 'last', text(last), 'bytes', text(pending_bytes + bytes))
  if bodies.n > 0 then redis.call('HSET', KEYS[16], unpack(bodies, 1, bodies.n)) end
  if ids.n > 0 then
    -- An id that is used again means the last message of that id.
    redis.call('ZADD', KEYS[#KEYS], unpack(ids, 1, ids.n))
    local excess = redis.call('ZCARD', KEYS[#KEYS]) - ids_max
    -- There are more only after the limit was lowered; later calls remove the rest.
    if excess > 0 then
      redis.call('ZREMRANGEBYRANK', KEYS[#KEYS], 0, math.min(excess, count + IDS_REMOVED_MAX) - 1)
    end
  end
  local releasable = lanes_ready.n > 0
  if releasable then redis.call('ZADD', KEYS[8], unpack(lanes_ready)) end
  for lane = 1, lane_count do
    local of_lane, of_ready = pending[lane], finished[lane]
    if of_lane.n > 0 then redis.call('ZADD', in_progress_of(lane), unpack(of_lane, 1, of_lane.n)) end
    if of_ready.n > 0 then redis.call('ZADD', ready_of(lane), unpack(of_ready, 1, of_ready.n)) end
    if first_ready[lane] then
      releasable = true
      if ordering == 'key' then redis.call('ZADD', KEYS[8], first_ready[lane], lane_key(lane)) end
    end
  end
  if ready_count > 0 then redis.call('HINCRBY', KEYS[3], 'ready', ready_count) end
  if awaiting > 0 then redis.call('HINCRBY', KEYS[3], 'awaiting_turn', awaiting) end
  for _, one in ipairs(awaiting_due) do
    local attempts = attempts_of(KEYS[12], one[1])
    attempts[5] = text(one[2])
    keep_attempts(KEYS[12], one[1], attempts)
  end
  if #delays > 0 then
    redis.call('ZADD', KEYS[11], unpack(delays))
    redis.call('HINCRBY', KEYS[3], 'delayed', #delays / 2)
  end
  if releasable then
    redis.call('ZADD', KEYS[7], '0', destination)
    wake(KEYS[10], destination)
  end
  local redriven = {}
  for letter in pairs(letters) do redriven[#redriven + 1] = letter end
  if #redriven > 0 then remove_letters(KEYS[14], KEYS[15], KEYS[17], KEYS[16], redriven) end
  if counted and #remember > 0 then
    counted.count = counted.count + #remember
    redis.call('HSET', KEYS[3], 'remembered', text_of_counted(counted))
  end
  for _, one in ipairs(remember) do
    local index, ms = one[1], window_ms + one[2]
    local in_epoch, sequence, digest, id = unpack(stamped_here[index])
    local value = table.concat({in_epoch, sequence, text(now + ms), digest, id}, ' ')
    if window_ms == 0 then
      redis.call('HSET', KEYS[13], idempotency_key_of(index), value)
    else
      redis.call('SET', KEYS[seen_base + index], value, 'PX', ms)
    end
  end
end
return keep(KEYS[2], number, answer)
