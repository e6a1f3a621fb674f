#!lua flags=allow-oom
-- release: settles what the owner has delivered, and hands it the next run of each lane: the
-- longest common prefix of in-progress and ready.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] owner         reseq:{p07}:owner
--   [3] destination   reseq:{p07}:d:<dest>
--   [4] messages      reseq:{p07}:d:<dest>:messages
--   [5] attempts      reseq:{p07}:d:<dest>:attempts
--   [6] releasable    reseq:{p07}:releasable
--   [7] lanes         reseq:{p07}:d:<dest>:lanes
--   [8…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] definition version  [4] destination
--   [5] 'destination' or 'key'  [6] quarantine, ms  [7] most bytes of records
--   then per lane 5: its key, the last sequence settled (0: none), how many of the settled were
--   tombstones, the last sequence still in hand (0: none), most messages to release
-- Returns: per lane {milliseconds until its head may leave, the head's attempts so far,
--   sequence, record, sequence, record …}
-- Errors: STALE_EPOCH <epoch>, QUARANTINE <milliseconds>, NOT_OWNER, UNKNOWN_DESTINATION,
--   STALE_DEFINITION
-- Sent again it settles nothing twice and hands out the same: no call number is needed.
-- include: clock, epoch, expect, owner

local now = now_ms()
local epoch, quarantine = current_epoch(KEYS[1], now, tonumber(ARGV[6]))
if text(epoch) ~= ARGV[2] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if quarantine > 0 then return redis.error_reply('QUARANTINE ' .. text(quarantine)) end
if not owns(KEYS[2], ARGV[1], now) then return redis.error_reply('NOT_OWNER another owns the partition') end
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local destination, by_key, room = ARGV[4], ARGV[5] == 'key', tonumber(ARGV[7])
local attempts_kept = redis.call('HLEN', KEYS[5]) > 0
local settled, dropped = 0, 0

-- Removes what was delivered: a prefix of the lane, all of it ready.
local function ack(in_progress, ready, upto, tombstones)
  local gone = redis.call('ZRANGE', ready, '-inf', upto, 'BYSCORE', 'LIMIT', 0, 2000)
  if #gone == 0 then return end
  redis.call('ZREM', in_progress, unpack(gone))
  redis.call('ZREM', ready, unpack(gone))
  redis.call('HDEL', KEYS[4], unpack(gone))
  if attempts_kept then redis.call('HDEL', KEYS[5], unpack(gone)) end
  settled = settled + #gone
  dropped = dropped + math.min(tombstones, #gone)
end

-- The sequences after those in hand that may leave: equal in both sets, from the front on.
local function run_of(in_progress, ready, in_hand, most)
  local from = in_hand == '0' and '-inf' or '(' .. in_hand
  local pending = redis.call('ZRANGE', in_progress, from, '+inf', 'BYSCORE', 'LIMIT', 0, most)
  if #pending == 0 then return pending end
  local finished = redis.call('ZRANGE', ready, from, '+inf', 'BYSCORE', 'LIMIT', 0, most)
  local run = {}
  for i = 1, #pending do
    if pending[i] ~= finished[i] then break end
    run[i] = pending[i]
  end
  return run
end

-- Adds the run's records to the answer, until the bytes are used up; one is always given.
local function add_records(answer, run)
  for from = 1, #run, 32 do
    local chunk = {}
    for i = from, math.min(from + 31, #run) do chunk[#chunk + 1] = run[i] end
    for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(chunk))) do
      if room <= 0 and #answer > 2 then return end
      room = room - #record
      answer[#answer + 1] = chunk[i]
      answer[#answer + 1] = record
    end
  end
end

expect('HLEN', KEYS[4])
expect('ZCARD', KEYS[6], KEYS[7])
for i = 8, #KEYS do expect('ZCARD', KEYS[i]) end

local answers = {}
for lane = 1, (#ARGV - 7) / 5 do
  local base = 3 + 5 * lane
  local key, upto, in_hand = ARGV[base], ARGV[base + 1], ARGV[base + 3]
  local most = tonumber(ARGV[base + 4])
  local in_progress, ready = KEYS[6 + 2 * lane], KEYS[7 + 2 * lane]
  local hints, member = KEYS[6], destination
  if by_key then hints, member = KEYS[7], key end

  if upto ~= '0' then ack(in_progress, ready, upto, tonumber(ARGV[base + 2])) end
  local not_before = in_hand == '0' and tonumber(redis.call('ZSCORE', hints, member) or 0) or 0
  local answer = {math.max(0, not_before - now), '0'}
  -- What earlier lanes of this call left no room for is asked for again at once.
  local full = room <= 0 and lane > 1 and most > 0
  if full then answer[1], most = math.max(1, answer[1]), -1 end
  -- A lane that is given back although it may have more goes behind those that wait.
  if most == 0 and in_hand == '0' and not_before <= now then
    redis.call('ZADD', hints, 'XX', text(now), member)
  end
  if most > 0 and not_before <= now then
    local run = run_of(in_progress, ready, in_hand, most)
    if #run > 0 then
      if attempts_kept then answer[2] = redis.call('HGET', KEYS[5], run[1]) or '0' end
      add_records(answer, run)
    elseif in_hand == '0' then
      redis.call('ZREM', hints, member)
      if by_key and redis.call('EXISTS', KEYS[7]) == 0 then redis.call('ZREM', KEYS[6], destination) end
    end
  end
  answers[lane] = answer
end

if settled > 0 then
  redis.call('HINCRBY', KEYS[3], 'settled', settled)
  redis.call('HINCRBY', KEYS[3], 'ready', -settled)
  redis.call('HINCRBY', KEYS[3], 'delivered', settled - dropped)
  if dropped > 0 then redis.call('HINCRBY', KEYS[3], 'dropped', dropped) end
end
return answers
