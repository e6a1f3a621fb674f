#!lua flags=allow-oom
-- release: settles messages that have left, and gives the owner the next run of each lane: the longest common prefix
-- of in-progress and ready. Without ordering, each message is its own lane.
--
-- Returns: {{sequence, text, … of pending withdrawals}, per lane {milliseconds until its head may be released,
--   attempts of the first message or '', sequence, record, sequence, record …}…}; a record ('': missing) whose body
--   is stored out of line is followed by the body ('': missing); {1000, '!'} for a lane from which more messages left
--   than one call can settle: the call has settled none of them. With consumers, a run holds the messages that they
--   have accepted, and messages that only the owner can handle (include/pulled.lua); before the first sequence is
--   then '' or the refusal of the run's last message, as in include/consumers.lua
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it settles nothing twice and returns the same run: no call number is needed.
-- include: schema, clock, epoch, owner, out_of_line, head
-- include: read_ahead, bodies, settle, wake, runs, consumers, pulled, counters

local now = now_ms()
local epoch, takeover_wait = current_epoch(key_epoch, now, seen_epoch)
if epoch ~= owner_epoch + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if takeover_wait > 0 then return redis.error_reply('TAKEOVER_WAIT ' .. text(takeover_wait)) end
if not owns(key_owner, token) then return redis.error_reply('NOT_OWNER another owns the partition') end
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'withdrawals', 'halted_ready', 'settled',
  'ready', 'bytes', 'delivered', 'delivery', 'last')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end

-- The limits of a call, for all lanes together: messages to settle, messages to return, sequences to read to find
-- these, and messages whose size to query. If a limit is used up before a lane's turn, the owner must ask for the
-- lane again.
local SETTLED_MAX, RUNS_MAX, READS_MAX, SIZED_MAX = 4096, 4000, 12000, 1000

local has_withdrawals, halted = (definition[3] or '0') ~= '0', (definition[4] or '0') ~= '0'
local is_pulled, attempts_kept = definition[9] == 'pull', redis.call('HLEN', key_attempts) > 0
local wait_max, room = tonumber(wait_max_ms), tonumber(bytes_max)
local budget = {
  settles = SETTLED_MAX, reads = READS_MAX, first_read = math.max(32, math.floor(RUNS_MAX / #lanes)),
}

-- The request of each lane, as include/runs.lua describes it. If the owner holds no message of a lane, the run begins
-- with the lane's head.
local keys, settles, NONE = {}, false, {}
for number, lane in ipairs(lanes) do
  local set = sets[ordering == 'none' and 1 or number]
  settles = settles or lane.upto ~= '0'
  keys[number] = lane.key
  lane.in_progress, lane.ready, lane.holds_none = set.in_progress, set.ready, lane.held_upto == '0'
  lane.most, lane.wait, lane.gone, lane.run = tonumber(lane.most), 0, NONE, NONE
end

-- Joins the 'gone' or 'run' lists of all lanes.
local function together(what)
  if #lanes == 1 then return lanes[1][what] end
  local all, n = {}, 0
  for _, lane in ipairs(lanes) do
    local list = lane[what]
    for i = 1, #list do all[n + i] = list[i] end
    n = n + #list
  end
  return all
end

-- Reads from when the heads may be released. If the owner holds the front of a lane, the lane needs no hint.
local function read_hints()
  local hints
  if ordering == 'destination' then
    hints = {lanes[1].holds_none and redis.call('ZSCORE', key_releasable, destination)}
  else
    hints = redis.call('ZMSCORE', key_lanes, unpack(keys))
  end
  for number, lane in ipairs(lanes) do
    lane.hint = lane.holds_none and hints[number]
    if lane.hint then lane.wait, lane.is_too_late = wait_of(lane.hint, now, wait_max) end
  end
end

-- Without ordering, each message is its own lane, and all lanes are in the same two sets.
local function read_each()
  -- If in-progress has the wrong type, the call ends here, before it writes.
  redis.call('ZCARD', lanes[1].in_progress)
  local is_ready, seen = redis.call('ZMSCORE', lanes[1].ready, unpack(keys)), {}
  for number, lane in ipairs(lanes) do
    if is_ready[number] and not seen[lane.key] then
      seen[lane.key] = true
      if tonumber(lane.upto) >= tonumber(lane.key) then
        -- The hint of the lane is removed, too.
        lane.gone, lane.hint, lane.is_too_late, lane.wait = {lane.key}, nil, nil, 0
      elseif lane.asks and lane.holds_none then
        lane.run = {lane.key}
      end
    end
  end
end

local function read_lanes()
  local left = RUNS_MAX
  for _, lane in ipairs(lanes) do
    lane.asks = lane.most > 0 and (is_pulled or lane.wait == 0)
    if is_pulled then look_at_lease(lane, key_consumer_leases, ordering) end
    local most = lane.asks and math.max(0, math.min(lane.most, left, budget.reads)) or 0
    lane.has_no_room = lane.asks and most == 0
    if ordering ~= 'none' then
      lane.is_too_long = not read_lane(lane, budget, most)
      if lane.is_too_long then lane.asks = false end
      left = left - #lane.run
    end
  end
  if ordering == 'none' then read_each() end
end

-- Ends each run before its first marked message: a halted message, or a message with a pending withdrawal, which the
-- owner must carry out first.
local function end_runs_before(command, marked)
  local all = together('run')
  if #all == 0 then return end
  local marks, before = redis.call(command, marked, unpack(all)), 0
  for _, lane in ipairs(lanes) do
    local run, left = lane.run, {}
    for i = 1, #run do
      if marks[before + i] then break end
      left[i] = run[i]
    end
    before, lane.run = before + #run, left
  end
end

-- Returns a function that reads the records of these sequences by index, in portions that fit into the answer.
local function reader_of(sequences)
  local records, from, upto, size, begun = {}, 1, 0, 32, room
  return function(i)
    if i > upto then
      if upto > 0 then size = next_portion(room, begun - room, upto - from + 1) end
      from, upto, begun = i, math.min(i + size - 1, #sequences), room
      records = redis.call('HMGET', key_messages, unpack(sequences, from, upto))
    end
    return records[i - from + 1]
  end
end

-- Returns the stored attempts of the first message of each run, by sequence.
local function attempts_at_heads()
  local heads, kept = {}, {}
  if not attempts_kept then return kept end
  for _, lane in ipairs(lanes) do heads[#heads + 1] = lane.run[1] end
  if #heads == 0 then return kept end
  for i, attempts in ipairs(redis.call('HMGET', key_attempts, unpack(heads))) do kept[heads[i]] = attempts end
  return kept
end

-- Returns the bytes of a message: of its record, and of its body if the body is stored out of line.
local function bytes_of(sequence)
  return redis.call('HSTRLEN', key_messages, sequence) + redis.call('HSTRLEN', key_bodies, sequence)
end

-- True if a delivery attempt at the message has failed. Unreadable attempts count as no attempts.
local function was_refused(kept)
  local could_read, attempts = pcall(cmsgpack.unpack, kept)
  return could_read and type(attempts) == 'table' and (tonumber(attempts[1]) or 0) > 0
end

-- If the receiver refused a head before, limits its run to one delivery: the receiver may refuse the head again, and
-- each time the call would read the messages behind it in vain. If the owner holds the front of a lane, the run does
-- not begin with the head.
local function shorten_refused(attempts)
  local most, most_bytes, sized = tonumber(refused_max), tonumber(refused_bytes_max), 0
  for _, lane in ipairs(lanes) do
    local run, short, bytes = lane.run, {}, 0
    local kept = lane.holds_none and #run > 1 and attempts[run[1]]
    if kept and was_refused(kept) then
      for i = 1, math.min(#run, most) do
        if sized == SIZED_MAX and i > 1 then break end
        if most > 1 and sized < SIZED_MAX then
          sized, bytes = sized + 1, bytes + bytes_of(run[i])
        end
        if bytes > most_bytes and i > 1 then break end
        short[i] = run[i]
      end
      lane.run = short
    end
  end
end

-- Returns the answers for all lanes: for each run as many messages as fit into the bytes, but at least one.
local function answer_all()
  local attempts = attempts_at_heads()
  if attempts_kept and not is_pulled then shorten_refused(attempts) end
  local answers, record_of, before, wanted = {{}}, reader_of(together('run')), 0, {}
  for number, lane in ipairs(lanes) do
    local run, answer, at = lane.run, {is_pulled and 0 or lane.wait, ''}, 2
    -- {1000, '!'} tells the owner that this call settled no message of the lane, because too many left it. After any
    -- other answer, all messages that left are settled.
    if lane.is_too_long then
      answer = {1000, '!'}
    -- If a lane does not fit into this answer, the owner asks for it again after 1 ms.
    elseif lane.has_no_room or lane.most > 0 and room <= 0 and number > 1 then
      answer[1] = math.max(1, answer[1])
    else
      answer[2] = attempts[run[1]] or ''
      room = room - #answer[2]
      if is_pulled then at, answer[3] = 3, lane.entry.refusal or '' end
      for i = 1, #run do
        if room <= 0 and i > 1 then break end
        local record = record_of(before + i) or ''
        local apart = bytes_out_of_line(record)
        room = room - #record - apart
        answer[at + 1], answer[at + 2] = run[i], record
        at = at + 2
        if apart > 0 then
          at = at + 1
          answer[at] = ''
          wanted[#wanted + 1] = {answer, at, run[i]}
        end
      end
    end
    before, answers[number + 1] = before + #run, answer
  end
  put_bodies(key_bodies, wanted)
  return answers
end

read_hints()
read_lanes()
if halted then end_runs_before('ZMSCORE', key_halted) end
-- A lane without messages to release loses its hint. The script decides this before it ends runs at withdrawals: if
-- messages of a lane wait only for a withdrawal, the lane keeps its hint. An empty lane has no wait: the wait was for
-- a head that has left.
for _, lane in ipairs(lanes) do
  if lane.is_all and #lane.gone > 0 then
    lane.is_empty, lane.wait = true, 0
  else
    lane.is_empty = lane.holds_none and lane.asks and not lane.has_no_room and #lane.run == 0
  end
end
if is_pulled then
  for _, lane in ipairs(lanes) do end_for_owner(lane, epoch, now, ordering, key_messages) end
elseif has_withdrawals then
  end_runs_before('HMGET', key_withdrawals)
end
local answers = answer_all()
local gone, is_gone = together('gone'), {}

local has_cleanup = #log + #bodies + #idempotency_keys > 0
local has_unwanted_log = settles and log_max == '0' and redis.call('LLEN', key_log_order) > 0

-- The most pending withdrawals that one call returns. If there are more, the call picks some at random, so that each
-- of them is returned sooner or later.
local WITHDRAWALS_MAX = 200
-- The most ordering keys that one call forgets. A call adds fewer keys than it may forget, so the number of keys
-- falls to its limit.
local FORGOTTEN_MAX = 1000

-- Stores the last sequences of lanes that are now empty, for later messages with the same ordering keys. Sequences
-- ascend, so the lowest sequences belong to the least recently used keys, which are removed first.
local function remember_keys(last_of_keys)
  local most, is_forgotten = tonumber(previous_max), false
  if most == 0 then
    redis.call('UNLINK', key_previous)
    is_forgotten = true
  else
    redis.call('ZADD', key_previous, unpack(last_of_keys))
    local excess = redis.call('ZCARD', key_previous) - most
    if excess > 0 then
      redis.call('ZREMRANGEBYRANK', key_previous, '0', math.min(excess, FORGOTTEN_MAX) - 1)
      is_forgotten = true
    end
  end
  -- From now on, an ordering key without an entry may have had messages before.
  if is_forgotten then redis.call('HDEL', key_destination, 'all_keys_known') end
end

-- Removes messages that left from their lane's sets.
local function settle_lanes()
  if ordering == 'none' then
    redis.call('ZREM', lanes[1].ready, unpack(gone))
    redis.call('ZREM', lanes[1].in_progress, unpack(gone))
    redis.call('ZREM', key_lanes, unpack(gone))
    return
  end
  local emptied, last_of_keys = {}, {}
  for _, lane in ipairs(lanes) do
    local last = lane.gone[#lane.gone]
    if lane.is_all and last then
      emptied[#emptied + 1], emptied[#emptied + 2] = lane.ready, lane.in_progress
      last_of_keys[#emptied - 1], last_of_keys[#emptied] = last, lane.key
    elseif last then
      redis.call('ZREMRANGEBYSCORE', lane.ready, '-inf', last)
      -- Messages that are not ready keep their position, even if the owner reports that they left.
      if lane.is_prefix then
        redis.call('ZREMRANGEBYSCORE', lane.in_progress, '-inf', last)
      else
        redis.call('ZREM', lane.in_progress, unpack(lane.gone))
      end
    end
  end
  if #emptied > 0 then
    redis.call('DEL', unpack(emptied))
    if ordering == 'key' then remember_keys(last_of_keys) end
  end
end

local function forget_records()
  redis.call('HDEL', key_messages, unpack(gone))
  if attempts_kept then redis.call('HDEL', key_attempts, unpack(gone)) end
  if has_withdrawals then
    forget_withdrawals(key_destination, key_withdrawals, key_withdrawing, destination, unpack(gone))
  end
  -- A repair may have halted messages that the owner was delivering.
  local halted_count = halted and redis.call('ZREM', key_halted, unpack(gone)) or 0
  if halted_count > 0 then redis.call('HINCRBY', key_destination, 'halted_ready', -halted_count) end
end

-- Updates the counters for messages that left.
local function count_gone()
  local bytes, delivered = 0, 0
  for _, lane in ipairs(lanes) do
    local counts, left = lane.accounted_bytes, #lane.gone
    if left > 0 then
      local accounted_bytes = tonumber(counts)
      if not accounted_bytes then accounted_bytes, left = count_tombstones(key_destination, counts, left) end
      bytes, delivered = bytes + accounted_bytes, delivered + left
    end
  end
  redis.call('HSET', key_destination, 'settled', counted(definition[5], #gone), 'ready', counted(definition[6], -#gone),
    'bytes', counted(definition[7], -bytes), 'delivered', counted(definition[8], delivered))
end

-- True if the hint of a lane must go behind the hints of the lanes that wait now.
local function has_had_turn(lane)
  if is_pulled then return lane.most == 0 and (lane.wait == 0 or may_be_consumed(lane, now)) end
  return lane.wait == 0 and (lane.most == 0 or #lane.run > 0 and is_first(lane.hint))
end

-- Removes the hints of lanes without releasable messages. Two kinds of lanes go behind the lanes that wait now: a
-- lane for which the owner asked for no messages, because it may have more; and a lane that did not have to wait for
-- other lanes, because it has had its turn. If a hint is too late, replaces it: the longest backoff begins now.
local function renew_hints()
  local empty = {}
  for _, lane in ipairs(lanes) do
    if lane.is_empty then
      empty[#empty + 1] = ordering == 'destination' and destination or lane.key
    elseif lane.is_too_late then
      may_leave(key_releasable, key_lanes, destination, ordering, lane.key, text(now + wait_max))
    elseif (ordering ~= 'destination' or is_pulled) and lane.hint and has_had_turn(lane) then
      may_leave(key_releasable, key_lanes, destination, ordering, lane.key, definition[10] or '1')
    end
  end
  if #empty > 0 then redis.call('ZREM', ordering == 'destination' and key_releasable or key_lanes, unpack(empty)) end
  if ordering ~= 'destination' and redis.call('EXISTS', key_lanes) == 0 then
    redis.call('ZREM', key_releasable, destination)
  end
end

if #gone > 0 then forget_records() end
-- If the destination has no log any more, remove the old log: at once, or in portions if its entries may have stored
-- bodies.
if has_unwanted_log and redis.call('HLEN', key_bodies) == 0 then
  redis.call('UNLINK', key_log, key_log_order)
elseif has_unwanted_log then
  shorten_log(key_log, key_log_order, key_bodies, key_dead_letters, redis.call('LLEN', key_log_order))
end
if #gone > 0 then
  settle_lanes()
  count_gone()
  if has_cleanup then
    for _, sequence in ipairs(gone) do is_gone[sequence] = true end
    if #log > 0 then
      local excess = log_gone(key_log, key_log_order, is_gone, log) - tonumber(log_max)
      shorten_log(key_log, key_log_order, key_bodies, key_dead_letters, excess)
    end
    forget_bodies(key_bodies, key_dead_letters, is_gone, bodies)
    forget_keys(key_idempotency_keys, is_gone, idempotency_keys)
  end
end
renew_hints()
if is_pulled then
  for _, lane in ipairs(lanes) do
    if not lane.is_too_long then keep_outcome(lane, ordering, key_consumer_leases, key_consumer_lease_ends) end
  end
  if redis.call('ZCARD', key_consumer_lease_ends) == 0 then redis.call('ZREM', key_consumers, destination) end
  -- Consumers may now get the messages behind the settled ones.
  if #gone > 0 then wake(key_wake_releasable, destination) end
end
if has_withdrawals then answers[1] = redis.call('HRANDFIELD', key_withdrawals, WITHDRAWALS_MAX, 'WITHVALUES') end
return answers
