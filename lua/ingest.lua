#!lua
-- ingest: stamps a batch of arrivals for one destination, in order, and stores them.
--
-- Returns: {first sequence, {arrival, 'duplicate' | 'conflict' | 'backlog_full' | 'gone' | 'damaged' | 'source_gap' |
--   'sources_full', sequence, epoch, id of the message stamped before | mark of the source}…}; arrivals that are not
--   listed were stamped, from the first sequence on, without gaps; damaged: the entry of its idempotency key is
--   unreadable; a message that repeats a position of its source, or that only moves the mark, has sequence 0; if any
--   arrivals were leased, the list begins with {0, 'leased', deadline in ms since 1970, 0, their sequences, separated
--   by spaces}; with ordering by key, each sequence is '<sequence>,<previous sequence of its lane, if known>'
-- Errors: STALE_CALL, LATE_CALL <ms since 1970>, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, STALE_EPOCH <epoch>,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, wake, arrivals
-- include: lists, attempts, waiting, bodies, dead_letters, remembered, sources, on_arrival

-- The most ids beyond the limit that one call removes, in addition to one for each arrival.
local IDS_REMOVED_MAX = 1000

local number = call_number + 0
local answered, progress = begin_ingest(key_call, key_epoch, key_destination, number, seen_epoch, record_schema,
  version, message_epoch)
if answered then return answered end
local now, last, pending_bytes, born = progress.now, progress.last, progress.pending_bytes, progress.born
local room = backlog_max - progress.pending

local needs_processing, serial = first_state == 'waiting', processing == 'serial'
window_ms, keys_max, ids_max = tonumber(window_ms), tonumber(keys_max), tonumber(ids_max)
local bytes, has_room_for_all = 0, backlog_bytes_max == '0'
local room_bytes = has_room_for_all and math.huge or tonumber(backlog_bytes_max) - pending_bytes

-- The options of the arrivals that have any, by number of the arrival.
local more = {}
for _, one in ipairs(options) do more[tonumber(one.arrival)] = one end
local source_of = {}
for _, source in ipairs(of_sources) do source_of[tonumber(source.arrival)] = source end
local refused_by_source, move_mark, store_marks = marks_of(key_sources, tonumber(sources_max))

-- For each lane: its last pending sequence; with serial processing also whether one of its messages is not processed
-- yet (`busy`).
local previous, was_empty, busy, empty = {}, {}, {}, {}
for which, lane in ipairs(lanes) do
  previous[which] = redis.call('ZRANGE', lane.in_progress, '-1', '-1')[1]
  was_empty[which] = not previous[which]
  if was_empty[which] and ordering == 'key' then empty[#empty + 1] = which end
  if serial and not was_empty[which] then
    busy[which] = redis.call('ZCARD', lane.in_progress) > redis.call('ZCARD', lane.ready)
  end
end

-- For the first message of an empty lane, `previous` is the last sequence that the lane had, as release.lua stored
-- it; '0' if the lane had no message, '' if Redis may have forgotten it.
if #empty > 0 then
  local keys = {}
  for i, lane in ipairs(empty) do keys[i] = lanes[lane].key end
  for i, last_of_key in ipairs(redis.call('ZMSCORE', key_previous, unpack(keys))) do
    previous[empty[i]] = last_of_key or progress.all_keys and '0' or ''
  end
end

-- Returns the message that was stamped under an idempotency key, in this batch or before: {epoch, sequence, digest,
-- id}; nil if there is none. Returns nil and true if the entry is unreadable.
local stamped_here = {}
local function stamped_before(index)
  if stamped_here[index] then return stamped_here[index] end
  local kept
  if window_ms == 0 then
    kept = redis.call('HGET', key_idempotency_keys, idempotency_keys[index])
  else
    kept = redis.call('GET', seen[index])
  end
  if not kept then return nil end
  local in_epoch, sequence, deadline, digest, id =
    string.match(kept, '^(%d+) (%d+) (%d+) (%S+) ?(.*)$')
  if not in_epoch then return nil, true end
  if tonumber(in_epoch) < born then return nil end
  if window_ms == 0 then
    -- A tombstone is never delivered, so its idempotency key may be used again.
    local record = redis.call('HGET', key_messages, sequence)
    if not record or string.sub(record, 1, 1) == 'T' then return nil end
  elseif tonumber(deadline) <= now then
    return nil
  end
  return {in_epoch, sequence, digest, id}
end

local first = last + 1
local answer = {first}
local is_leased = may_lease(secret, progress.paused, key_waiting, ordering)
local leased, previous_of_leased = {}, ordering == 'key' and {} or nil
local pending, finished, first_ready, records = {}, {}, {}, {n = 0}
local waiting, delays, awaiting, remember, letters = {n = 0}, {}, 0, {}, {}
local awaiting_due, lanes_ready, ready_count, ids = {}, {n = 0}, 0, {n = 0}
for lane = 1, #lanes do pending[lane], finished[lane] = {n = 0}, {n = 0} end

local function accounted_bytes_of(record)
  return tonumber(string.match(record, '^%d(%d+),') or string.match(record, '^B%d+;%d(%d+),'))
end

-- Adds a prefix to the record, with the fields that only this script knows. If the body is stored out of line, the
-- prefix comes after its mark 'B<length>;'.
local function with_prefix(prefix, record)
  if string.byte(record) ~= 66 then return prefix .. record end
  local mark, rest = string.match(record, '^(B%d+;)(.*)$')
  return mark .. prefix .. rest
end

-- Gives a new sequence its first state: waiting, leased, delayed, awaiting turn or ready. `sequence_before` is the
-- previous message of its lane.
local function set_state(lane, sequence, due, priority, is_finished, sequence_before)
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
    elseif is_leased then
      leased[#leased + 1] = sequence
      if previous_of_leased then previous_of_leased[#leased] = sequence_before end
    elseif ordering == 'none' then
      add(waiting, score_of(sequence, priority), sequence)
    else
      waiting.n = waiting.n + 1
      waiting[waiting.n] = sequence
    end
  end
end

local left_out, stamped_as, is_full = 0, {}, false
-- The idempotency keys within the window, counted only if an arrival has such a key.
local counted, room_for_keys
for arrival, arrived in ipairs(arrivals) do
  local lane, record = tonumber(arrived.lane), arrived.record
  local of_key, wanted = '', ''
  if more[arrival] then of_key, wanted = more[arrival].seen, more[arrival].options end
  local accounted_bytes = has_room_for_all and 0 or accounted_bytes_of(record)
  local index, digest, id, before, unreadable, letter, letter_epoch
  if of_key ~= '' then
    index, digest, id = string.match(of_key, '^(%d+):(%S+) ?(.*)$')
    index = tonumber(index)
    before, unreadable = stamped_before(index)
    if window_ms > 0 and not counted then
      counted = counted_keys(redis.call('HGET', key_destination, 'remembered'), window_ms, now)
      room_for_keys = keys_max - remembered_keys(counted, window_ms, now)
    end
  end
  local due, priority, is_finished = nil, '4', not needs_processing
  if wanted ~= '' then
    letter, letter_epoch = string.match(wanted, 'replaces=(%d+),(%d+);')
    local delay, instant = string.match(wanted, 'delay=(%d+);'), string.match(wanted, 'due=(%d+);')
    due = delay and now + tonumber(delay) or tonumber(instant)
    priority = string.match(wanted, 'priority=(%d);') or '4'
    is_finished = is_finished or string.find(wanted, 'processed;', 1, true) ~= nil
  end
  local refusal
  local source = source_of[arrival]
  local why, mark
  if source then why, mark = refused_by_source(source) end
  -- A source's mark must not move past a message that this call refused because the backlog is full.
  if source and not why and is_full then
    why, mark = 'backlog_full', ''
  end
  -- A message that repeats an idempotency key is answered with its position, so this check goes before the check of
  -- its source.
  local is_same = before and (compare == 'key' or before[3] == digest)
  if why and not (is_same and why == 'duplicate') then
    refusal = {arrival, why, '0', '0', mark}
  elseif source and source.skips == '1' and not why then
    move_mark(source)
    refusal = {arrival, 'duplicate', '0', '0', ''}
  elseif before then
    refusal = {arrival, is_same and 'duplicate' or 'conflict', before[2], before[1], before[4]}
    if source and is_same and not why then move_mark(source) end
  elseif unreadable then
    refusal = {arrival, 'damaged', '0', '0', ''}
  elseif letter and (letters[letter] or tonumber(letter_epoch) < born
      or not redis.call('ZSCORE', key_dead_letters, letter)) then
    -- The dead letter was redriven or discarded before, or belongs to an earlier destination with this name.
    refusal = {arrival, 'gone', '0', '0', ''}
  elseif room <= 0 or room_bytes < accounted_bytes and pending_bytes + bytes > 0
      or index and counted and room_for_keys < 1 then
    -- Later arrivals of the batch must not overtake this one.
    room, is_full = 0, true
    refusal = {arrival, 'backlog_full', '0', '0', ''}
  end
  if refusal then
    answer[#answer + 1] = refusal
    left_out = left_out + accounted_bytes_of(record)
  else
    if source then move_mark(source) end
    last, room, room_bytes, bytes = last + 1, room - 1, room_bytes - accounted_bytes, bytes + accounted_bytes
    local sequence = text(last)
    if letter then letters[letter] = true end
    local sequence_before = previous[lane]
    if ordering == 'key' then record = with_prefix('P' .. sequence_before .. ';', record) end
    if ordering == 'none' then record = with_prefix('N' .. priority .. ';', record) end
    add(records, sequence, record)
    stamped_as[arrival] = sequence
    if ids_max > 0 then add(ids, sequence, arrived.id) end
    previous[lane] = sequence
    set_state(lane, sequence, due, priority, is_finished, sequence_before)
    if index then
      stamped_here[index] = {message_epoch, sequence, digest, id}
      remember[#remember + 1] = {index, math.max(0, (due or 0) - now)}
      if counted then room_for_keys = room_for_keys - 1 end
    end
  end
end
if has_room_for_all then bytes = tonumber(accounted_bytes_sum) - left_out end
local stored = {n = 0}
for _, body in ipairs(bodies) do
  local sequence = stamped_as[tonumber(body.of)]
  if sequence then add(stored, sequence .. body.suffix, body.body) end
end

-- Adds the new sequences to `waiting`.
local function store_waiting()
  if waiting.n == 0 then return end
  local length = redis.call(ordering == 'none' and 'ZADD' or 'RPUSH', key_waiting, unpack(waiting, 1, waiting.n))
  local added = length
  if ordering == 'none' then length = redis.call('ZCARD', key_waiting) else added = waiting.n end
  if length ~= added then return end
  -- `waiting` was empty.
  redis.call('ZADD', key_active, '0', destination)
  wake(key_wake_waiting, destination)
end

-- If a key has the wrong type, the call ends here, before it writes.
for lane, of_lane in ipairs(finished) do
  if of_lane.n > 0 then redis.call('ZCARD', lanes[lane].ready) end
end
if records.n > 0 then
  redis.call('HSET', key_messages, unpack(records, 1, records.n))
  store_waiting()
  if #leased > 0 then
    local deadline = text(now + lease_ms)
    table.insert(answer, 2, lease_on_arrival(key_leases, destination, secret, deadline, leased, previous_of_leased))
  end
  redis.call('HSET', key_destination, 'last', text(last), 'bytes', text(pending_bytes + bytes))
  if stored.n > 0 then redis.call('HSET', key_bodies, unpack(stored, 1, stored.n)) end
  if ids.n > 0 then
    -- If several messages have an id, the id means the last of them.
    redis.call('ZADD', key_ids, unpack(ids, 1, ids.n))
    local excess = redis.call('ZCARD', key_ids) - ids_max
    -- There are more excess ids than arrivals only after the limit was lowered; later calls remove the rest.
    if excess > 0 then
      redis.call('ZREMRANGEBYRANK', key_ids, 0, math.min(excess, #arrivals + IDS_REMOVED_MAX) - 1)
    end
  end
  local releasable = lanes_ready.n > 0
  if releasable then redis.call('ZADD', key_lanes, unpack(lanes_ready)) end
  for i, lane in ipairs(lanes) do
    local of_lane, of_ready = pending[i], finished[i]
    if of_lane.n > 0 then redis.call('ZADD', lane.in_progress, unpack(of_lane, 1, of_lane.n)) end
    if of_ready.n > 0 then redis.call('ZADD', lane.ready, unpack(of_ready, 1, of_ready.n)) end
    if first_ready[i] then
      releasable = true
      if ordering == 'key' then redis.call('ZADD', key_lanes, first_ready[i], lane.key) end
    end
  end
  if ready_count > 0 then redis.call('HINCRBY', key_destination, 'ready', ready_count) end
  if awaiting > 0 then redis.call('HINCRBY', key_destination, 'awaiting_turn', awaiting) end
  for _, one in ipairs(awaiting_due) do
    local attempts = attempts_of(key_attempts, one[1])
    attempts[5] = text(one[2])
    keep_attempts(key_attempts, one[1], attempts)
  end
  if #delays > 0 then
    redis.call('ZADD', key_delayed, unpack(delays))
    redis.call('HINCRBY', key_destination, 'delayed', #delays / 2)
  end
  if releasable then
    redis.call('ZADD', key_releasable, '0', destination)
    wake(key_wake_releasable, destination)
  end
  local redriven = {}
  for letter in pairs(letters) do redriven[#redriven + 1] = letter end
  if #redriven > 0 then
    remove_letters(key_dead_letters, key_dead_letter_messages, key_dead_lettered_at, key_bodies, redriven)
  end
  if counted and #remember > 0 then
    counted.count = counted.count + #remember
    redis.call('HSET', key_destination, 'remembered', text_of_counted(counted))
  end
  for _, one in ipairs(remember) do
    local index, ms = one[1], window_ms + one[2]
    local in_epoch, sequence, digest, id = unpack(stamped_here[index])
    local value = table.concat({in_epoch, sequence, text(now + ms), digest, id}, ' ')
    if window_ms == 0 then
      redis.call('HSET', key_idempotency_keys, idempotency_keys[index], value)
    else
      redis.call('SET', seen[index], value, 'PX', ms)
    end
  end
end
store_marks()
return keep(key_call, number, answer)
