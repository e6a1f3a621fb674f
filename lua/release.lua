#!lua flags=allow-oom
-- release: settles what has left, and hands the owner the next run of each lane: the longest common
-- prefix of in-progress and ready. Where nothing is in order each message is a lane.
--
-- KEYS:
--   [1]  epoch         reseq:{p07}:epoch
--   [2]  owner         reseq:{p07}:owner
--   [3]  destination   reseq:{p07}:d:<dest>
--   [4]  messages      reseq:{p07}:d:<dest>:messages
--   [5]  attempts      reseq:{p07}:d:<dest>:attempts
--   [6]  releasable    reseq:{p07}:releasable
--   [7]  lanes         reseq:{p07}:d:<dest>:lanes
--   [8]  orders        reseq:{p07}:d:<dest>:orders
--   [9]  unique        reseq:{p07}:d:<dest>:unique
--   [10] log           reseq:{p07}:d:<dest>:log
--   [11] log_order     reseq:{p07}:d:<dest>:log:order
--   [12] halted        reseq:{p07}:d:<dest>:halted
--   [13…] per lane (nothing in order: once) 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] definition version  [4] destination
--   [5] 'destination', 'key' or 'none'  [6] known of the epoch  [7] most bytes of records  [8] most
--   messages in the log  [9] number of lanes  [10] number of entries for the log
--   then per lane 8: its key (nothing in order: the sequence), the last sequence settled (0: none),
--   how many of the settled were tombstones: dropped, skipped, cancelled; their charges in bytes; the
--   last sequence still in hand (0: none), most messages to release
--   then per entry 2: sequence, entry; then the idempotency keys that are forgotten with the settled
-- Returns: {number of orders, per lane {milliseconds until its head may leave, what attempts at the
--   first left or '', sequence, record, sequence, record …}…}
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, QUARANTINE <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again it settles nothing twice and hands out the same: no call number is needed.
-- include: schema, clock, epoch, expect, owner, look

check_schema(KEYS[1])
local now = now_ms()
local epoch, quarantine = current_epoch(KEYS[1], now, ARGV[6])
if text(epoch) ~= ARGV[2] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if quarantine > 0 then return redis.error_reply('QUARANTINE ' .. text(quarantine)) end
if not owns(KEYS[2], ARGV[1], now) then return redis.error_reply('NOT_OWNER another owns the partition') end
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'orders', 'halted_ready')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local destination, ordering, room = ARGV[4], ARGV[5], tonumber(ARGV[7])
local orders, halted = tonumber(known[3]) or 0, (tonumber(known[4]) or 0) > 0
local attempts_kept = redis.call('HLEN', KEYS[5]) > 0
local lane_count, entry_count = tonumber(ARGV[9]), tonumber(ARGV[10])
local settled, is_gone, bytes = 0, {}, 0
-- The log, and idempotency keys that are forgotten.
local asks_what_is_gone = #ARGV > 10 + 8 * lane_count
local tombstones = {dropped = 0, skipped = 0, cancelled = 0}

-- Counts what has left a lane.
local function count_settled(base, left)
  settled = settled + left
  for i, kind in ipairs({'dropped', 'skipped', 'cancelled'}) do
    local count = math.min(tonumber(ARGV[base + 1 + i]), left)
    tombstones[kind] = tombstones[kind] + count
    left = left - count
  end
  bytes = bytes + tonumber(ARGV[base + 5])
end

local function forget_records(gone)
  redis.call('HDEL', KEYS[4], unpack(gone))
  if attempts_kept then redis.call('HDEL', KEYS[5], unpack(gone)) end
  if orders > 0 then orders = orders - redis.call('HDEL', KEYS[8], unpack(gone)) end
  if asks_what_is_gone then
    for _, sequence in ipairs(gone) do is_gone[sequence] = true end
  end
end

-- Removes what has left: a prefix of the lane, all of it ready.
local function ack(base, in_progress, ready)
  local from, upto = '-inf', ARGV[base + 1]
  local gone = redis.call('ZRANGE', ready, from, upto, 'BYSCORE', 'LIMIT', 0, 2000)
  if #gone == 0 then return end
  upto = gone[#gone]
  redis.call('ZREMRANGEBYSCORE', ready, from, upto)
  -- What is not ready keeps its place, whatever the owner says.
  if redis.call('ZCOUNT', in_progress, from, upto) == #gone then
    redis.call('ZREMRANGEBYSCORE', in_progress, from, upto)
  else
    redis.call('ZREM', in_progress, unpack(gone))
  end
  forget_records(gone)
  count_settled(base, #gone)
end

-- Where nothing is in order: removes what has left of all lanes together, each a message.
local function ack_each(in_progress, ready)
  local left, bases, gone = {}, {}, {}
  for base = 11, 3 + 8 * lane_count, 8 do
    local sequence = ARGV[base + 1]
    if sequence ~= '0' and not bases[sequence] then
      left[#left + 1], bases[sequence] = sequence, base
    end
  end
  if #left == 0 then return end
  for i, is_ready in ipairs(redis.call('ZMSCORE', ready, unpack(left))) do
    if is_ready then
      gone[#gone + 1] = left[i]
      count_settled(bases[left[i]], 1)
    end
  end
  if #gone == 0 then return end
  redis.call('ZREM', ready, unpack(gone))
  redis.call('ZREM', in_progress, unpack(gone))
  redis.call('ZREM', KEYS[7], unpack(gone))
  forget_records(gone)
end

-- The sequences after those in hand that may leave: equal in both sets, from the front on.
local function run_of(in_progress, ready, in_hand, most)
  local from = in_hand == '0' and '-inf' or '(' .. in_hand
  local finished = redis.call('ZRANGE', ready, from, '+inf', 'BYSCORE', 'LIMIT', 0, most)
  if #finished == 0 then return finished end
  -- What is ready is in progress: if no more is in progress up to its end, it is the prefix itself.
  local upto = redis.call('ZCOUNT', in_progress, from, finished[#finished])
  if upto == #finished then return finished end
  local pending = redis.call('ZRANGE', in_progress, from, '+inf', 'BYSCORE', 'LIMIT', 0, #finished)
  local run = {}
  for i = 1, #pending do
    if pending[i] ~= finished[i] then break end
    run[i] = pending[i]
  end
  return run
end

-- Ends the run before a halted message.
local function before_halted(run)
  if not halted or #run == 0 then return run end
  local left = {}
  for i, since in ipairs(redis.call('ZMSCORE', KEYS[12], unpack(run))) do
    if since then break end
    left[i] = run[i]
  end
  return left
end

-- Ends the run before what the owner has an order for: it is carried out first.
local function before_orders(run)
  if orders == 0 or #run == 0 then return run end
  local left = {}
  for i, order in ipairs(redis.call('HMGET', KEYS[8], unpack(run))) do
    if order then break end
    left[i] = run[i]
  end
  return left
end

-- Adds the run's records to the answer, until the bytes are used up; one is always given. The first
-- records say how many of their size fit into one look.
local function add_records(answer, run)
  local looked, size, at = 0, 32, #answer
  while looked < #run do
    local last = math.min(looked + size, #run)
    local begun = room
    local records = redis.call('HMGET', KEYS[4], unpack(run, looked + 1, last))
    for i = 1, last - looked do
      if room <= 0 and at > 2 then return end
      room = room - #records[i]
      answer[at + 1], answer[at + 2] = run[looked + i], records[i]
      at = at + 2
    end
    looked, size = last, next_look(room, begun - room, last - looked)
  end
end

-- Where nothing is in order: what each lane that is asked for is told, read for all together.
local function add_answers_each(answers, ready)
  local keys, back, empty = {}, {}, {}
  for lane = 1, lane_count do keys[lane] = ARGV[3 + 8 * lane] end
  local hints = redis.call('ZMSCORE', KEYS[7], unpack(keys))
  local is_ready = redis.call('ZMSCORE', ready, unpack(keys))
  local is_halted = halted and redis.call('ZMSCORE', KEYS[12], unpack(keys)) or {}
  local is_ordered = orders > 0 and redis.call('HMGET', KEYS[8], unpack(keys)) or {}
  local attempts = attempts_kept and redis.call('HMGET', KEYS[5], unpack(keys)) or {}
  local records, looked, size = {}, 0, 32
  local function record_of(lane)
    if lane > looked then
      local last, read = math.min(lane + size - 1, lane_count), 0
      records = redis.call('HMGET', KEYS[4], unpack(keys, lane, last))
      for _, record in ipairs(records) do read = read + #(record or '') end
      records.from, looked, size = lane, last, next_look(room, read, last - lane + 1)
    end
    return records[lane - records.from + 1]
  end
  for lane = 1, lane_count do
    local base, key = 3 + 8 * lane, keys[lane]
    local is_new, most = ARGV[base + 6] == '0', tonumber(ARGV[base + 7])
    local not_before = is_new and tonumber(hints[lane] or 0) or 0
    local answer = {math.max(0, not_before - now), ''}
    local may_leave = is_new and not_before <= now
    if most > 0 and room <= 0 and lane > 1 then
      answer[1] = math.max(1, answer[1])
    elseif most == 0 and may_leave then
      if hints[lane] then back[#back + 1], back[#back + 2] = text(now), key end
    elseif may_leave and (not is_ready[lane] or is_halted[lane]) then
      empty[#empty + 1] = key
    elseif may_leave and not is_ordered[lane] then
      local record = record_of(lane)
      room = room - #record
      answer[2], answer[3], answer[4] = attempts[lane] or '', key, record
    end
    answers[lane + 1] = answer
  end
  if #back > 0 then redis.call('ZADD', KEYS[7], 'XX', unpack(back)) end
  if #empty > 0 then redis.call('ZREM', KEYS[7], unpack(empty)) end
end

-- Of what this call has no use for nothing is asked.
expect('HLEN', KEYS[4])
expect('ZCARD', KEYS[6])
if ordering ~= 'destination' then expect('ZCARD', KEYS[7]) end
if orders > 0 then expect('HLEN', KEYS[8]) end
if halted then expect('ZCARD', KEYS[12]) end
if asks_what_is_gone then
  expect('HLEN', KEYS[9], KEYS[10])
  expect('LLEN', KEYS[11])
end
for i = 13, #KEYS do expect('ZCARD', KEYS[i]) end

-- A log that is not wanted any more.
if ARGV[8] == '0' and redis.call('LLEN', KEYS[11]) > 0 then redis.call('UNLINK', KEYS[10], KEYS[11]) end

local function sets_of(lane)
  return KEYS[11 + 2 * lane], KEYS[12 + 2 * lane]
end

-- Settles a lane, and hands out its next run.
local function answer_of(lane)
  local base = 3 + 8 * lane
  local key, in_hand, most = ARGV[base], ARGV[base + 6], tonumber(ARGV[base + 7])
  local in_progress, ready = sets_of(lane)
  local hints, member = KEYS[6], destination
  if ordering ~= 'destination' then hints, member = KEYS[7], key end

  if ARGV[base + 1] ~= '0' then ack(base, in_progress, ready) end
  local not_before = in_hand == '0' and tonumber(redis.call('ZSCORE', hints, member) or 0) or 0
  local answer = {math.max(0, not_before - now), ''}
  -- What earlier lanes of this call left no room for is asked for again at once.
  local full = room <= 0 and lane > 1 and most > 0
  if full then answer[1], most = math.max(1, answer[1]), -1 end
  -- A lane that is given back although it may have more goes behind those that wait.
  if most == 0 and in_hand == '0' and not_before <= now then
    redis.call('ZADD', hints, 'XX', text(now), member)
  end
  if most > 0 and not_before <= now then
    local run = before_halted(run_of(in_progress, ready, in_hand, most))
    local is_empty = #run == 0
    run = before_orders(run)
    if #run > 0 then
      if attempts_kept then answer[2] = redis.call('HGET', KEYS[5], run[1]) or '' end
      add_records(answer, run)
    elseif is_empty and in_hand == '0' then
      -- Orders are looked for as long as there are any.
      if orders == 0 or ordering ~= 'destination' then redis.call('ZREM', hints, member) end
    end
  end
  return answer
end

local answers = {0}
if ordering == 'none' then
  local in_progress, ready = sets_of(1)
  ack_each(in_progress, ready)
  add_answers_each(answers, ready)
else
  for lane = 1, lane_count do answers[lane + 1] = answer_of(lane) end
end

if ordering ~= 'destination' and orders == 0 and redis.call('EXISTS', KEYS[7]) == 0 then
  redis.call('ZREM', KEYS[6], destination)
end

-- Adds the entries of what has left just now to the log, and has the oldest make room.
local function log_settled()
  local first, length = 11 + 8 * lane_count, 0
  for from = first, first + 2 * entry_count - 2, 2000 do
    local entries, order = {}, {}
    for i = from, math.min(from + 1998, first + 2 * entry_count - 2), 2 do
      if is_gone[ARGV[i]] then
        order[#order + 1] = ARGV[i]
        entries[#entries + 1] = ARGV[i]
        entries[#entries + 1] = ARGV[i + 1]
      end
    end
    if #order > 0 then
      redis.call('HSET', KEYS[10], unpack(entries))
      length = redis.call('RPUSH', KEYS[11], unpack(order))
    end
  end
  local excess = length - tonumber(ARGV[8])
  if excess > 0 then
    redis.call('HDEL', KEYS[10], unpack(redis.call('LPOP', KEYS[11], math.min(excess, 4000))))
  end
end

-- Forgets idempotency keys, unless another message than those that have left has them now.
local function forget_keys(from, to)
  local forgotten = {}
  for i, kept in ipairs(redis.call('HMGET', KEYS[9], unpack(ARGV, from, to))) do
    if kept and is_gone[string.match(kept, '^%d+ (%d+) ')] then
      forgotten[#forgotten + 1] = ARGV[from + i - 1]
    end
  end
  if #forgotten > 0 then redis.call('HDEL', KEYS[9], unpack(forgotten)) end
end

if settled > 0 then
  redis.call('HINCRBY', KEYS[3], 'settled', settled)
  redis.call('HINCRBY', KEYS[3], 'ready', -settled)
  if bytes > 0 then redis.call('HINCRBY', KEYS[3], 'bytes', -bytes) end
  local delivered = settled
  for kind, count in pairs(tombstones) do
    delivered = delivered - count
    if count > 0 then redis.call('HINCRBY', KEYS[3], kind, count) end
  end
  if delivered > 0 then redis.call('HINCRBY', KEYS[3], 'delivered', delivered) end
  if entry_count > 0 then log_settled() end
  local keys = 11 + 8 * lane_count + 2 * entry_count
  for from = keys, #ARGV, 2000 do forget_keys(from, math.min(from + 1999, #ARGV)) end
  if known[3] and orders ~= tonumber(known[3]) then redis.call('HSET', KEYS[3], 'orders', orders) end
end
answers[1] = orders
return answers
