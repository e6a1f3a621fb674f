#!lua flags=allow-oom
-- repair: compares messages of a paused destination with the sets that are derived from them, and corrects the sets.
--
-- Returns: {a list with 3 values per finding: kind, sequence, 1 if it was repaired; {pending, ready, halted and
--   ready, awaiting turn, bytes, delayed}; the messages that must be in `waiting`; the damaged messages, which must
--   not be in it}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, attempts, head, wake, waiting, serial, out_of_line

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end

local may_repair, now = repairs == '1', now_ms()
local findings, sums, waits, damaged = {}, {0, 0, 0, 0, 0, 0}, {}, {}

-- Records a finding. Returns true if the script must repair it.
local function find(kind, sequence)
  local at = #findings
  findings[at + 1], findings[at + 2], findings[at + 3] = kind, sequence, may_repair and 1 or 0
  return may_repair
end

local function count_by(counter, change) redis.call('HINCRBY', key_destination, counter, change) end

-- True if the record is readable and its body exists.
local function is_whole(message, record)
  if not record or message.is_unreadable == '1' then return false end
  local apart = bytes_out_of_line(record)
  return apart == 0 or redis.call('HSTRLEN', key_bodies, message.sequence) == apart
end

local function end_delay(sequence)
  if redis.call('ZREM', key_delayed, destination .. '/' .. sequence) == 1 then count_by('delayed', -1) end
end

-- Removes all data about a message that is in no lane.
local function forget(lane, sequence, at)
  if at.ready then
    redis.call('ZREM', lane.ready, sequence)
    count_by('ready', -1)
    if at.halted then count_by('halted_ready', -1) end
  end
  redis.call('ZREM', key_halted, sequence)
  end_delay(sequence)
  forget_withdrawals(key_destination, key_withdrawals, key_withdrawing, destination, sequence)
  redis.call('HDEL', key_attempts, sequence)
  redis.call('HDEL', key_messages, sequence)
end

-- A record that is in no lane cannot be delivered in order any more: makes it a dead letter, for an operator.
local function set_aside(sequence, record, at)
  local reason, attempts = 'repair: no lane held this message', cmsgpack.pack(attempts_of(key_attempts, sequence))
  local head = table.concat({text(now), at.ready and 'delivery' or 'transform', #reason, #attempts}, ' ')
  redis.call('HSET', key_dead_letter_messages, sequence, head .. ';' .. reason .. attempts .. record)
  redis.call('ZADD', key_dead_letters, sequence, sequence)
  redis.call('ZADD', key_dead_lettered_at, text(now), sequence)
end

local function check_stray(lane, message, record, at)
  local sequence = message.sequence
  if record and find('no_lane', sequence) then
    if message.is_unreadable == '1' or string.sub(record, 1, 1) == 'T' then
      redis.call('HDEL', key_bodies, sequence, sequence .. 'i')
    else
      set_aside(sequence, record, at)
    end
    forget(lane, sequence, at)
  elseif not record and (at.ready or at.halted or at.delayed or redis.call('HEXISTS', key_withdrawals, sequence) == 1
      or redis.call('HEXISTS', key_attempts, sequence) == 1) and find('left_over', sequence) then
    forget(lane, sequence, at)
  end
end

-- Halts a pending message whose record or body is missing or unreadable: an operator can see it, and skip or cancel
-- it.
local function halt_damaged(sequence, at)
  local attempts, stage = attempts_of(key_attempts, sequence), at.ready and 'delivery' or 'transform'
  attempts[4] = stage
  note_error(attempts, now, '{"stage":"' .. stage .. '","kind":"damaged","detail":"repair: its record '
    .. 'or its body is missing, or cannot be read"}')
  keep_attempts(key_attempts, sequence, attempts)
  redis.call('ZADD', key_halted, text(now), sequence)
  if at.ready then count_by('halted_ready', 1) end
  end_delay(sequence)
end

local function make_ready(lane, sequence, at)
  redis.call('ZADD', lane.ready, sequence, sequence)
  count_by('ready', 1)
  at.ready, lane.unfinished = sequence, nil
end

-- True if this message of a serial lane awaits its turn behind an unfinished message.
local function is_held(lane, sequence, at)
  if processing ~= 'serial' or at.ready then return false end
  lane.unfinished = lane.unfinished or first_unfinished(lane.in_progress, lane.ready) or ''
  return lane.unfinished ~= sequence
end

-- Checks the state of a pending message that is not damaged and does not await its turn.
local function check_state(lane, message, record, at)
  local sequence = message.sequence
  if string.sub(record, 1, 1) == 'T' then
    if not at.ready and find('nowhere', sequence) then make_ready(lane, sequence, at) end
  elseif at.delayed and (at.ready or at.halted) then
    if find('twice', sequence) then end_delay(sequence) end
  elseif not (at.ready or at.halted or at.delayed or message.is_leased == '1') then
    local is_halted = attempts_of(key_attempts, sequence)[4] ~= ''
    if not is_halted and message.is_processed ~= '1' then
      waits[#waits + 1] = sequence
    elseif find('nowhere', sequence) then
      if message.is_processed == '1' then make_ready(lane, sequence, at) end
      if is_halted then redis.call('ZADD', key_halted, text(now), sequence) end
      if is_halted and at.ready then count_by('halted_ready', 1) end
    end
  end
end

-- A ready head needs a hint, even with a pending withdrawal: if the message was dropped, the withdrawal ends and
-- leaves no hint.
local function check_hint(lane, sequence, at)
  if not at.ready or at.halted or not is_head(ordering, lane.in_progress, sequence) then return end
  local key = ordering == 'none' and sequence or lane.key
  local of_destination = redis.call('ZSCORE', key_releasable, destination)
  local of_lane = of_destination
  if ordering ~= 'destination' then of_lane = redis.call('ZSCORE', key_lanes, key) end
  if of_destination and of_lane and tonumber(of_destination) <= tonumber(of_lane) then return end
  if find('hint', sequence) then
    may_leave(key_releasable, key_lanes, destination, ordering, key, sequence)
    wake(key_wake_releasable, destination)
  end
end

local function count_pending(record, at, is_awaiting)
  local rest = string.gsub(string.sub(record or '', 1, 60), '^T.', '')
  local bytes = string.match(rest, '^%d(%d+),') or string.match(rest, '^[^,]-;%d(%d+),')
  local counts = {true, at.ready, at.ready and at.halted, is_awaiting, false, at.delayed}
  for i = 1, 6 do sums[i] = sums[i] + (counts[i] and 1 or 0) end
  sums[5] = sums[5] + (tonumber(bytes) or 0)
end

for _, message in ipairs(messages) do
  local lane, sequence = lanes[tonumber(message.lane)], message.sequence
  local record = redis.call('HGET', key_messages, sequence)
  local at = {
    halted = redis.call('ZSCORE', key_halted, sequence),
    delayed = redis.call('ZSCORE', key_delayed, destination .. '/' .. sequence),
    ready = lane and redis.call('ZSCORE', lane.ready, sequence),
  }
  if not lane or not redis.call('ZSCORE', lane.in_progress, sequence) then
    check_stray(lane, message, record, at)
  else
    local is_awaiting = is_held(lane, sequence, at)
    if not is_whole(message, record) then
      if not at.halted and not is_awaiting and message.is_leased ~= '1' then
        damaged[#damaged + 1] = sequence
        if find('damaged', sequence) then halt_damaged(sequence, at) end
      end
    elseif not is_awaiting or string.sub(record, 1, 1) == 'T' then
      check_state(lane, message, record, at)
    end
    count_pending(record, at, is_awaiting)
    check_hint(lane, sequence, at)
  end
end
for i = 1, 6 do sums[i] = text(sums[i]) end
return {findings, sums, waits, damaged}
