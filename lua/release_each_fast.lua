#!lua flags=allow-oom
-- release_each_fast: the fast path of release without ordering, where each message is its own lane, for ordinary
-- messages. It runs if it can settle all messages that left and release all messages that the owner asks for. It does
-- the same as release with fewer commands and less Lua.
--
-- Returns: {{}, {0, '', sequence, record, …}}: all messages that the owner asked for, in the order of the call
-- Errors: NOT_FAST, NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it refuses to settle a message twice (NOT_FAST), and returns the same messages: no call number is needed.
-- include: schema, clock, epoch, owner, out_of_line, head, read_ahead, counters, release_fast

local refusal, definition = begin_release(key_epoch, key_owner, key_destination, now_ms(), seen_epoch, owner_epoch,
  token, version)
if refusal then return refusal end
local halted, attempts_kept = (definition[1] or '0') ~= '0', redis.call('HLEN', key_attempts) > 0

-- True if `command` finds each of these messages in `key`.
local function has_each(command, key, sequences)
  local found = redis.call(command, key, unpack(sequences))
  for i = 1, #sequences do
    if not found[i] then return false end
  end
  return true
end

-- True if `command` finds none of these messages in `key`.
local function has_none(command, key, sequences)
  for _, found in ipairs(redis.call(command, key, unpack(sequences))) do
    if found then return false end
  end
  return true
end

local function are_ready(sequences)
  return has_each('ZMSCORE', key_ready, sequences) and (not halted or has_none('ZMSCORE', key_halted, sequences))
end

-- True if each of the messages that the owner asks for may leave now, and needs no wait except for its turn.
local function may_be_released()
  if not are_ready(asked) or attempts_kept and not has_none('HMGET', key_attempts, asked) then return false end
  local first, from_time = redis.call('ZCOUNT', key_lanes, '-inf', '0'), text(FIRST_TIME)
  if first + redis.call('ZCOUNT', key_lanes, from_time, '+inf') == 0 then return true end
  local hints = redis.call('ZMSCORE', key_lanes, unpack(asked))
  for i = 1, #asked do
    if not hints[i] or is_first(hints[i]) then return false end
  end
  return true
end

-- Returns the messages for the owner; nil if their records are too long or a body is stored out of line.
local function run_of()
  local run, room, from, size = {0, ''}, bytes_max + 0, 1, 32
  while from <= #asked do
    local upto, begun = math.min(from + size - 1, #asked), room
    for i, record in ipairs(redis.call('HMGET', key_messages, unpack(asked, from, upto))) do
      if not record or bytes_out_of_line(record) > 0 then return nil end
      room = room - #record
      local at = 2 * (from + i - 1)
      run[at + 1], run[at + 2] = asked[from + i - 1], record
    end
    if room <= 0 then return nil end
    from, size = upto + 1, next_portion(room, begun - room, upto - from + 1)
  end
  return run
end

-- Removes the messages that left from `ready` and `in-progress`, which are sorted by sequence. Uses ranges where
-- messages are neighbours, because ranges cost less.
local function remove_from_sets()
  local ranges, count, before = {}, 0, -1
  for _, sequence in ipairs(left) do
    local number = sequence + 0
    if number ~= before + 1 then
      count = count + 1
      ranges[count] = {sequence}
    end
    ranges[count][2], before = sequence, number
  end
  for _, key in ipairs({key_ready, key_in_progress}) do
    if count * 8 > #left then
      redis.call('ZREM', key, unpack(left))
    else
      for _, range in ipairs(ranges) do redis.call('ZREMRANGEBYSCORE', key, unpack(range)) end
    end
  end
end

-- Settles the messages that left. Returns false if it cannot.
local function settle()
  if not are_ready(left) then return false end
  local excess = add_to_log(key_log, key_log_order, key_bodies, log, log_max, left, 1000)
  if not excess then return false end
  forget_settled(key_destination, key_messages, key_log, key_log_order, definition, left, settled_bytes, excess)
  if attempts_kept then redis.call('HDEL', key_attempts, unpack(left)) end
  remove_from_sets()
  move_hints(key_releasable, key_lanes, destination, 'none', {}, left)
  return true
end

local run = {0, ''}
if #asked > 0 then run = may_be_released() and run_of() end
if run and (#left == 0 or settle()) then return {{}, run} end
return redis.error_reply('NOT_FAST a message or the log is not as usual')
