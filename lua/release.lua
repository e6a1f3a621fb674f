#!lua flags=allow-oom
-- release: settles messages that have left, and gives the owner the next run of each lane: the longest common
-- prefix of in-progress and ready. Without ordering, each message is a lane.
--
-- KEYS:
--   [1]  epoch         reseq:{p07}:epoch
--   [2]  owner         reseq:{p07}:owner
--   [3]  destination   reseq:{p07}:d:<dest>
--   [4]  messages      reseq:{p07}:d:<dest>:messages
--   [5]  attempts      reseq:{p07}:d:<dest>:attempts
--   [6]  releasable    reseq:{p07}:releasable
--   [7]  lanes         reseq:{p07}:d:<dest>:lanes
--   [8]  withdrawals   reseq:{p07}:d:<dest>:withdrawals
--   [9]  unique        reseq:{p07}:d:<dest>:idempotency-keys
--   [10] log           reseq:{p07}:d:<dest>:log
--   [11] log_order     reseq:{p07}:d:<dest>:log:order
--   [12] halted        reseq:{p07}:d:<dest>:halted
--   [13] bodies        reseq:{p07}:d:<dest>:bodies
--   [14] dead          reseq:{p07}:d:<dest>:dead-letters
--   [15] previous      reseq:{p07}:d:<dest>:previous
--   [16] leases        reseq:{p07}:d:<dest>:consumer-leases
--   [17] lease_ends    reseq:{p07}:d:<dest>:consumer-lease-ends
--   [18] consumers     reseq:{p07}:consumers
--   [19] wake_releasable reseq:{p07}:wake:releasable
--   [20] withdrawing   reseq:{p07}:withdrawing
--   [21…] per lane (without ordering: once) 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
--   A short call has only 1 to 6, 11, 13 and those of its lane: a destination that is one lane, without log entries,
--   bodies to remove or idempotency keys to forget.
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] definition version  [4] destination
--   [5] 'destination', 'key' or 'none'  [6] `known` of include/epoch.lua
--   [7] most bytes of records  [8] most messages in the log  [9] number of lanes  [10] number of log entries
--   [11] number of bodies stored apart to remove with the settled messages
--   [12] most messages and [13] most bytes of records and bodies for a lane whose head was refused before (at
--   least one message is returned)  [14] most keys of empty lanes whose last sequence is remembered
--   [15] longest backoff, ms
--   then 5 per lane: its key (without ordering: the sequence), the last settled sequence (0: none), the sum of
--   accounted bytes of the settled (a number; if any were tombstones, as in include/gone.lua:
--   'bytes=…;dropped=…;dead_lettered=…;cancelled=…;'), the last sequence that the owner still holds (0: none),
--   most messages to release
--   then 2 per log entry: sequence, entry; then the fields of those bodies; then the idempotency keys to
--   forget with the settled messages. A short call has only 1 to 4, 6 to 8, 12, 13 and 15, then the last four of its
--   lane
-- Returns: {{sequence, text, … of pending withdrawals}, per lane {milliseconds until its head may be released, attempts
--   of the first or '', sequence, record, sequence, record …}…}; a record ('': missing) whose body is stored apart
--   is followed by the body ('': missing); for an unreadable lane {1000, '!<what is wrong>'}. With consumers, a run holds
--   what they have accepted, and what else only the owner can handle (include/pulled.lua); before the first sequence is
--   then '' or the refusal of its last message as in include/consumers.lua
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION, MORE_KEYS (a short call does not suffice)
-- Sent again, it settles nothing twice and returns the same run: no call number is needed.
-- include: schema, clock, epoch, damage, owner, apart, head, release_alone

-- The index of the keys of the first lane.
local FIRST_LANE = 21

-- What the fast path needs, and whether the call has no more lanes, and no bodies and keys to remove.
local is_short, is_one_lane, entry_count = #KEYS == 10, true, 0
local known_by_owner, room, log_max, upto, accounted_bytes, held_upto, most, log_order, bodies, in_progress, ready
if is_short then
  known_by_owner, room, log_max, upto, accounted_bytes, held_upto, most =
    ARGV[5], ARGV[6], ARGV[7], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
  log_order, bodies, in_progress, ready = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
else
  entry_count = tonumber(ARGV[10])
  is_one_lane = ARGV[5] == 'destination' and ARGV[9] == '1' and ARGV[11] == '0' and #ARGV == 20 + 2 * entry_count
  known_by_owner, room, log_max, upto, accounted_bytes, held_upto, most =
    ARGV[6], ARGV[7], ARGV[8], ARGV[17], ARGV[18], ARGV[19], ARGV[20]
  log_order, bodies, in_progress, ready = KEYS[11], KEYS[13], KEYS[FIRST_LANE], KEYS[FIRST_LANE + 1]
end

local now = now_ms()
local epoch, takeover_wait = current_epoch(KEYS[1], now, known_by_owner)
if epoch ~= ARGV[2] + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if takeover_wait > 0 then return redis.error_reply('TAKEOVER_WAIT ' .. text(takeover_wait)) end
if not owns(KEYS[2], ARGV[1]) then return redis.error_reply('NOT_OWNER another owns the partition') end
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'withdrawals', 'halted_ready', 'settled',
  'ready', 'bytes', 'delivered', 'delivery', 'last')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local destination = ARGV[4]
room = room + 0
-- Without consumers, withdrawals and halted messages.
local is_pulled = known[9] == 'pull'
local is_plain = (known[3] or '0') == '0' and (known[4] or '0') == '0' and not is_pulled
if is_short and not is_plain then
  return redis.error_reply('MORE_KEYS there are consumers, withdrawals, or halted messages that are ready')
end

local attempts_kept = redis.call('HLEN', KEYS[5]) > 0
-- One lane, of which the owner holds nothing more, and wants something. If it has not
-- delivered the head, the head may be released now.
local is_simple = is_plain and is_one_lane and held_upto == '0' and most ~= '0' and not attempts_kept
  and (upto ~= '0' or (redis.call('ZSCORE', KEYS[6], destination) or 0) - now <= 0)
local sequences = is_simple and all_ready(in_progress, ready)
if sequences and upto == '0' and #sequences <= most + 0 then
  local run = hand_out_alone(KEYS[4], sequences, room)
  if run then return {{}, run} end
elseif sequences and (upto == sequences[#sequences] or upto + 0 >= sequences[#sequences] + 0)
    and (log_max == '0' and redis.call('LLEN', log_order) == 0 or log_max ~= '0' and #sequences == entry_count) then
  local settled_bytes, count = tonumber(accounted_bytes), #sequences
  if settled_bytes and settle_alone(destination, KEYS[4], KEYS[6], KEYS[10], log_order, bodies, in_progress, ready,
      sequences, 20, log_max + 0) then
    redis.call('HSET', KEYS[3], 'settled', counted(known[5], count), 'ready', counted(known[6], -count),
      'bytes', counted(known[7], -settled_bytes), 'delivered', counted(known[8], count))
    return {{}, {0, ''}}
  end
end

if is_short then
  local k, a = KEYS, ARGV
  KEYS = {k[1], k[2], k[3], k[4], k[5], k[6]}
  KEYS[11], KEYS[13], KEYS[FIRST_LANE], KEYS[FIRST_LANE + 1] = log_order, bodies, in_progress, ready
  ARGV = {a[1], a[2], a[3], a[4], 'destination', a[5], a[6], a[7], '1', '0', '0', a[8], a[9], '0', a[10], '', a[11],
    a[12], a[13], a[14]}
end
local ordering = ARGV[5]

-- The rest is for calls that cannot take the fast path.
-- include: expect, portions, bodies, gone, wake, runs, consumers, pulled

-- Limits of a call, over all lanes: messages to settle, messages to return, sequences to read to find those,
-- and messages whose size to query. A lane for which nothing is left has to ask again.
local SETTLED_MAX, RUNS_MAX, READS_MAX, SIZED_MAX = 4096, 4000, 12000, 1000

local has_withdrawals, halted = (known[3] or '0') ~= '0', (known[4] or '0') ~= '0'
local lane_count, body_count, wait_max = tonumber(ARGV[9]), tonumber(ARGV[11]), tonumber(ARGV[15])
local budget = {
  settles = SETTLED_MAX, reads = READS_MAX, first_read = math.max(32, math.floor(RUNS_MAX / lane_count)),
}

-- Each lane's request, as include/runs.lua describes it. If the owner holds nothing of a lane, the run begins
-- with the head.
local lanes, keys, settles, NONE = {}, {}, false, {}
for number = 1, lane_count do
  local base, sets = 11 + 5 * number, ordering == 'none' and 1 or number
  local upto = ARGV[base + 1]
  settles = settles or upto ~= '0'
  keys[number] = ARGV[base]
  lanes[number] = {
    base = base, key = keys[number], upto = upto, held_upto = ARGV[base + 3],
    holds_none = ARGV[base + 3] == '0', most = tonumber(ARGV[base + 4]),
    in_progress = KEYS[19 + 2 * sets], ready = KEYS[20 + 2 * sets], wait = 0, gone = NONE, run = NONE,
  }
end

-- Joins the 'gone' or 'run' lists of all lanes.
local function together(what)
  if lane_count == 1 then return lanes[1][what] end
  local all, n = {}, 0
  for number = 1, lane_count do
    local list = lanes[number][what]
    for i = 1, #list do all[n + i] = list[i] end
    n = n + #list
  end
  return all
end

-- When the heads may be released. Not needed for a lane whose front the owner holds.
local function read_hints()
  local hints
  if ordering == 'destination' then
    hints = {lanes[1].holds_none and redis.call('ZSCORE', KEYS[6], destination)}
  else
    hints = redis.call('ZMSCORE', KEYS[7], unpack(keys))
  end
  for number = 1, lane_count do
    local lane = lanes[number]
    lane.hint = lane.holds_none and hints[number]
    if lane.hint then lane.wait, lane.is_too_late = wait_of(lane.hint, now, wait_max) end
  end
end

-- Without ordering, each message is a lane, and all are in the same sets.
local function read_each()
  local is_ready, seen = redis.call('ZMSCORE', lanes[1].ready, unpack(keys)), {}
  for number = 1, lane_count do
    local lane = lanes[number]
    if is_ready[number] and not seen[lane.key] then
      seen[lane.key] = true
      if tonumber(lane.upto) >= tonumber(lane.key) then
        -- Remove its hint, too.
        lane.gone, lane.hint, lane.is_too_late, lane.wait = {lane.key}, nil, nil, 0
      elseif lane.asks and lane.holds_none then
        lane.run = {lane.key}
      end
    end
  end
end

local function read_lanes()
  local left = RUNS_MAX
  for number = 1, lane_count do
    local lane = lanes[number]
    lane.asks = lane.most > 0 and (is_pulled or lane.wait == 0)
    if is_pulled then look_at_lease(lane, KEYS[16], ordering) end
    local most = lane.asks and math.max(0, math.min(lane.most, left, budget.reads)) or 0
    lane.has_no_room = lane.asks and most == 0
    if ordering ~= 'none' then
      -- A lane with unreadable keys must not block the others.
      local could_read, wrong = pcall(read_lane, lane, budget, most)
      if not could_read then
        lane.wrong = type(wrong) == 'table' and wrong.err or tostring(wrong)
        lane.gone, lane.run, lane.asks = NONE, NONE, false
      end
      left = left - #lane.run
    end
  end
  if ordering == 'none' then read_each() end
end

-- Ends each run before the first marked message: one that is halted, or has a withdrawal, which the owner
-- must carry out first.
local function end_runs_before(command, marked)
  local all = together('run')
  if #all == 0 then return end
  local marks, before = redis.call(command, marked, unpack(all)), 0
  for number = 1, lane_count do
    local run, left = lanes[number].run, {}
    for i = 1, #run do
      if marks[before + i] then break end
      left[i] = run[i]
    end
    before, lanes[number].run = before + #run, left
  end
end

-- Returns a function that reads the records of these sequences by index, in portions that fit into the
-- answer.
local function reader_of(sequences)
  local records, from, upto, size, begun = {}, 1, 0, 32, room
  return function(i)
    if i > upto then
      if upto > 0 then size = next_portion(room, begun - room, upto - from + 1) end
      from, upto, begun = i, math.min(i + size - 1, #sequences), room
      records = redis.call('HMGET', KEYS[4], unpack(sequences, from, upto))
    end
    return records[i - from + 1]
  end
end

-- The stored attempts of the first message of each run, by sequence.
local function attempts_at_heads()
  local heads, kept = {}, {}
  if not attempts_kept then return kept end
  for _, lane in ipairs(lanes) do heads[#heads + 1] = lane.run[1] end
  if #heads == 0 then return kept end
  for i, attempts in ipairs(redis.call('HMGET', KEYS[5], unpack(heads))) do kept[heads[i]] = attempts end
  return kept
end

-- The bytes of a message's record and its body that is stored apart.
local function bytes_of(sequence)
  return redis.call('HSTRLEN', KEYS[4], sequence) + redis.call('HSTRLEN', KEYS[13], sequence)
end

-- True if a delivery attempt at the message has failed. Unreadable attempts count as none.
local function was_refused(kept)
  local could_read, attempts = pcall(cmsgpack.unpack, kept)
  return could_read and type(attempts) == 'table' and (tonumber(attempts[1]) or 0) > 0
end

-- Limits the run of a head that was refused before to one delivery: it may be refused again, and the messages
-- behind it would be read in vain each time. If the owner holds the front of a lane, the run does not begin
-- with the head.
local function shorten_refused(attempts)
  local most, most_bytes, sized = tonumber(ARGV[12]), tonumber(ARGV[13]), 0
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

-- The answers for all lanes: each run, until the bytes are used up; at least one message.
local function answer_all()
  local attempts = attempts_at_heads()
  if attempts_kept and not is_pulled then shorten_refused(attempts) end
  local answers, record_of, before, wanted = {{}}, reader_of(together('run')), 0, {}
  for number = 1, lane_count do
    local lane = lanes[number]
    local run, answer, at = lane.run, {is_pulled and 0 or lane.wait, ''}, 2
    if lane.wrong then
      answer = {1000, '!' .. lane.wrong}
    -- A lane that does not fit into this answer is requested again after 1 ms.
    elseif lane.has_no_room or lane.most > 0 and room <= 0 and number > 1 then
      answer[1] = math.max(1, answer[1])
    else
      answer[2] = attempts[run[1]] or ''
      room = room - #answer[2]
      if is_pulled then at, answer[3] = 3, lane.entry.refusal or '' end
      for i = 1, #run do
        if room <= 0 and i > 1 then break end
        local record = record_of(before + i) or ''
        local apart = bytes_apart(record)
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
  put_bodies(KEYS[13], wanted)
  return answers
end

read_hints()
read_lanes()
if halted then end_runs_before('ZMSCORE', KEYS[12]) end
-- A lane of which nothing may be released loses its hint. This is decided before runs end at withdrawals, so a
-- lane whose messages only wait for a withdrawal keeps its hint. A lane that is empty now has nothing to wait for:
-- the wait was for a head that has left.
for number = 1, lane_count do
  local lane = lanes[number]
  if lane.is_all and #lane.gone > 0 then
    lane.is_empty, lane.wait = true, 0
  else
    lane.is_empty = lane.holds_none and lane.asks and not lane.has_no_room and #lane.run == 0
  end
end
if is_pulled then
  for number = 1, lane_count do end_for_owner(lanes[number], epoch, now, ordering, KEYS[4]) end
elseif has_withdrawals then
  end_runs_before('HMGET', KEYS[8])
end
local answers = answer_all()
local gone, is_gone = together('gone'), {}

-- Skip checks of keys that this call does not need: the log, and idempotency keys to forget.
local has_cleanup = #ARGV > 15 + 5 * lane_count
if ordering ~= 'destination' then expect('ZCARD', KEYS[6], KEYS[7]) end
if #gone > 0 and ordering == 'key' then expect('ZCARD', KEYS[15]) end
if ordering == 'none' then expect('ZCARD', lanes[1].in_progress) end
if has_withdrawals then
  expect('HLEN', KEYS[8])
  expect('ZCARD', KEYS[20])
end
if is_pulled then
  expect('HLEN', KEYS[16])
  expect('ZCARD', KEYS[6], KEYS[17], KEYS[18])
end
if halted and #gone > 0 then expect('ZCARD', KEYS[12]) end
local has_unwanted_log = settles and ARGV[8] == '0' and redis.call('LLEN', KEYS[11]) > 0
if has_unwanted_log and is_short then return redis.error_reply('MORE_KEYS there is an old log') end
if has_cleanup or has_unwanted_log then
  expect('HLEN', KEYS[9], KEYS[10], KEYS[13])
  expect('LLEN', KEYS[11])
  expect('ZCARD', KEYS[14])
end

-- The most pending withdrawals that one call returns: of more, some at random, so that none hides others.
local WITHDRAWALS_MAX = 200
-- The most keys that one call forgets. A call adds fewer keys than that, so their number falls to its limit.
local FORGOTTEN_MAX = 1000

-- Stores the last sequences of lanes that are now empty, for later messages with their keys. Sequences
-- ascend, so the lowest ones belong to the least recently used keys; remove these first.
local function remember_keys(last_of_keys)
  local most, is_forgotten = tonumber(ARGV[14]), false
  if most == 0 then
    redis.call('UNLINK', KEYS[15])
    is_forgotten = true
  else
    redis.call('ZADD', KEYS[15], unpack(last_of_keys))
    local excess = redis.call('ZCARD', KEYS[15]) - most
    if excess > 0 then
      redis.call('ZREMRANGEBYRANK', KEYS[15], '0', math.min(excess, FORGOTTEN_MAX) - 1)
      is_forgotten = true
    end
  end
  -- From now on, a key that is not stored may have had messages before.
  if is_forgotten then redis.call('HDEL', KEYS[3], 'all_keys_known') end
end

-- Removes messages that left from their lane's sets.
local function settle_lanes()
  if ordering == 'none' then
    redis.call('ZREM', lanes[1].ready, unpack(gone))
    redis.call('ZREM', lanes[1].in_progress, unpack(gone))
    redis.call('ZREM', KEYS[7], unpack(gone))
    return
  end
  local emptied, last_of_keys = {}, {}
  for number = 1, lane_count do
    local lane = lanes[number]
    local last = lane.gone[#lane.gone]
    if lane.is_all and last then
      emptied[#emptied + 1], emptied[#emptied + 2] = lane.ready, lane.in_progress
      last_of_keys[#emptied - 1], last_of_keys[#emptied] = last, lane.key
    elseif last then
      redis.call('ZREMRANGEBYSCORE', lane.ready, '-inf', last)
      -- Messages that are not ready keep their position, whatever the owner reports.
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
  redis.call('HDEL', KEYS[4], unpack(gone))
  if attempts_kept then redis.call('HDEL', KEYS[5], unpack(gone)) end
  if has_withdrawals then forget_withdrawals(KEYS[3], KEYS[8], KEYS[20], destination, unpack(gone)) end
  -- A repair may have halted messages that the owner was delivering.
  local halted_count = halted and redis.call('ZREM', KEYS[12], unpack(gone)) or 0
  if halted_count > 0 then redis.call('HINCRBY', KEYS[3], 'halted_ready', -halted_count) end
end

-- Updates the counters for messages that left.
local function count_gone()
  local bytes, delivered = 0, 0
  for number = 1, lane_count do
    local counts, left = ARGV[lanes[number].base + 2], #lanes[number].gone
    if left > 0 then
      local accounted_bytes = tonumber(counts)
      if not accounted_bytes then accounted_bytes, left = count_tombstones(KEYS[3], counts, left) end
      bytes, delivered = bytes + accounted_bytes, delivered + left
    end
  end
  redis.call('HSET', KEYS[3], 'settled', counted(known[5], #gone), 'ready', counted(known[6], -#gone),
    'bytes', counted(known[7], -bytes), 'delivered', counted(known[8], delivered))
end

-- True if the hint of a lane goes behind those of the lanes that wait now.
local function has_had_turn(lane)
  if is_pulled then return lane.most == 0 and (lane.wait == 0 or may_be_consumed(lane, now)) end
  return lane.wait == 0 and (lane.most == 0 or #lane.run > 0 and is_first(lane.hint))
end

-- Removes the hints of lanes without releasable messages. A lane that asked for no messages may have more, and one that
-- did not wait for others has had its turn: its hint goes behind those of the lanes that wait now. A hint that is too
-- late is renewed by this clock.
local function renew_hints()
  local empty = {}
  for number = 1, lane_count do
    local lane = lanes[number]
    if lane.is_empty then
      empty[#empty + 1] = ordering == 'destination' and destination or lane.key
    elseif lane.is_too_late then
      may_leave(KEYS[6], KEYS[7], destination, ordering, lane.key, text(now + wait_max))
    elseif (ordering ~= 'destination' or is_pulled) and lane.hint and has_had_turn(lane) then
      may_leave(KEYS[6], KEYS[7], destination, ordering, lane.key, known[10] or '1')
    end
  end
  if #empty > 0 then redis.call('ZREM', ordering == 'destination' and KEYS[6] or KEYS[7], unpack(empty)) end
  if ordering ~= 'destination' and redis.call('EXISTS', KEYS[7]) == 0 then
    redis.call('ZREM', KEYS[6], destination)
  end
end

-- The first write, because only the key of the records may have another type.
if #gone > 0 then forget_records() end
-- If the destination has no log any more, remove the old one: at once, or in portions if bodies may be stored
-- apart for it.
if has_unwanted_log and redis.call('HLEN', KEYS[13]) == 0 then
  redis.call('UNLINK', KEYS[10], KEYS[11])
elseif has_unwanted_log then
  shorten_log(KEYS[10], KEYS[11], KEYS[13], KEYS[14], redis.call('LLEN', KEYS[11]))
end
if #gone > 0 then
  settle_lanes()
  count_gone()
  if has_cleanup then
    for _, sequence in ipairs(gone) do is_gone[sequence] = true end
    local entries = 16 + 5 * lane_count
    local fields = entries + 2 * entry_count
    local names = fields + body_count
    if entry_count > 0 then
      local excess = log_gone(KEYS[10], KEYS[11], is_gone, entries, fields - 1) - tonumber(ARGV[8])
      shorten_log(KEYS[10], KEYS[11], KEYS[13], KEYS[14], excess)
    end
    forget_bodies(KEYS[13], KEYS[14], is_gone, fields, names - 1)
    forget_keys(KEYS[9], is_gone, names)
  end
end
renew_hints()
if is_pulled then
  for number = 1, lane_count do
    if not lanes[number].wrong then keep_outcome(lanes[number], ordering, KEYS[16], KEYS[17]) end
  end
  if redis.call('ZCARD', KEYS[17]) == 0 then redis.call('ZREM', KEYS[18], destination) end
  -- Consumers may get the messages behind those that were settled.
  if #gone > 0 then wake(KEYS[19], destination) end
end
if has_withdrawals then answers[1] = redis.call('HRANDFIELD', KEYS[8], WITHDRAWALS_MAX, 'WITHVALUES') end
return answers
