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
--   [11…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
--   […]   per idempotency key: seen reseq:{p07}:d:<dest>:seen:<idempotency key>
-- ARGV:
--   [1] call number  [2] destination  [3] definition version  [4] epoch that the records carry
--   [5] quarantine, ms  [6] 'waiting' or 'ready' (nothing to process)  [7] most pending messages
--   [8] idempotency window, ms  [9] 'destination' or 'key'  [10] number of lanes
--   then the lanes' keys, then per arrival 3: its lane (from 1), '' or
--   '<seen key, from 1>:<digest> <id>', and its record
-- Returns: {first sequence, {arrival, 'duplicate' | 'conflict' | 'backlog_full', sequence, epoch,
--   id of what was stamped before}…}
--   the arrivals that are not listed were stamped from the first sequence on, without gaps
-- Errors: STALE_CALL, STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: clock, call, epoch, expect

local number = tonumber(ARGV[1])
local answered = replayed(KEYS[2], number)
if answered then return answered end

local now = now_ms()
local epoch = current_epoch(KEYS[1], now, tonumber(ARGV[5]))
if text(epoch) ~= ARGV[4] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end

local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'last', 'settled', 'born')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local destination, needs_processing, by_key = ARGV[2], ARGV[6] == 'waiting', ARGV[9] == 'key'
local last, born = tonumber(known[3]) or 0, tonumber(known[5]) or 0
local room = tonumber(ARGV[7]) - (last - (tonumber(known[4]) or 0))
local lane_count = tonumber(ARGV[10])
local seen_base = 10 + 2 * lane_count

-- The last sequence stamped in each lane that is still pending; 0 for an empty lane.
local previous = {}
for lane = 1, lane_count do
  previous[lane] = redis.call('ZRANGE', KEYS[9 + 2 * lane], -1, -1)[1] or '0'
end
local was_empty = {}
for lane = 1, lane_count do was_empty[lane] = previous[lane] == '0' end

-- What is known of an idempotency key: epoch, sequence, digest, id; from this batch or before.
local stamped_here = {}
local function first_of(index)
  if stamped_here[index] then return unpack(stamped_here[index]) end
  local kept = redis.call('GET', KEYS[seen_base + index])
  if not kept then return nil end
  local in_epoch, sequence, deadline, digest, id =
    string.match(kept, '^(%d+) (%d+) (%d+) (%S+) ?(.*)$')
  if tonumber(deadline) <= now or tonumber(in_epoch) < born then return nil end
  return in_epoch, sequence, digest, id
end

expect('HLEN', KEYS[5])
if needs_processing then
  expect('LLEN', KEYS[4])
  expect('ZCARD', KEYS[6])
else
  expect('ZCARD', KEYS[7], KEYS[8])
  for lane = 1, lane_count do expect('ZCARD', KEYS[10 + 2 * lane]) end
end

local first = last + 1
local answer = {first}
local scores, records, sequences, remember = {}, {}, {}, {}
local arrival = 0
for i = 11 + lane_count, #ARGV, 3 do
  arrival = arrival + 1
  local lane, seen, record = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local index, digest, id, in_epoch, at, same, first_id
  if seen ~= '' then
    index, digest, id = string.match(seen, '^(%d+):(%S+) ?(.*)$')
    index = tonumber(index)
    in_epoch, at, same, first_id = first_of(index)
  end
  if in_epoch then
    local kind = same == digest and 'duplicate' or 'conflict'
    answer[#answer + 1] = {arrival, kind, at, in_epoch, first_id}
  elseif room <= 0 then
    answer[#answer + 1] = {arrival, 'backlog_full', '0', '0', ''}
  else
    last, room = last + 1, room - 1
    local sequence = text(last)
    local of_lane = scores[lane] or {}
    scores[lane] = of_lane
    of_lane[#of_lane + 1] = sequence
    of_lane[#of_lane + 1] = sequence
    records[#records + 1] = sequence
    -- Where lanes are keys, the record is preceded by the sequence stamped before it in its lane.
    if by_key then record = 'P' .. previous[lane] .. ';' .. record end
    records[#records + 1] = record
    previous[lane] = sequence
    sequences[#sequences + 1] = sequence
    if index then
      stamped_here[index] = {ARGV[4], sequence, digest, id}
      remember[#remember + 1] = index
    end
  end
end

if #sequences > 0 then
  redis.call('HSET', KEYS[3], 'last', text(last))
  redis.call('HSET', KEYS[5], unpack(records))
  local releasable = false
  for lane, of_lane in pairs(scores) do
    redis.call('ZADD', KEYS[9 + 2 * lane], unpack(of_lane))
    if not needs_processing then
      redis.call('ZADD', KEYS[10 + 2 * lane], unpack(of_lane))
      if was_empty[lane] then
        releasable = true
        if by_key then redis.call('ZADD', KEYS[8], text(now), ARGV[10 + lane]) end
      end
    end
  end
  if needs_processing then
    local length = redis.call('RPUSH', KEYS[4], unpack(sequences))
    if length == #sequences then
      redis.call('ZADD', KEYS[6], text(now), destination)
      redis.call('PUBLISH', KEYS[9], destination)
    end
  else
    redis.call('HINCRBY', KEYS[3], 'ready', #sequences)
  end
  if releasable then
    redis.call('ZADD', KEYS[7], 'LT', text(now), destination)
    redis.call('PUBLISH', KEYS[10], destination)
  end
  local deadline = text(now + tonumber(ARGV[8]))
  for _, index in ipairs(remember) do
    local in_epoch, sequence, digest, id = unpack(stamped_here[index])
    local value = table.concat({in_epoch, sequence, deadline, digest, id}, ' ')
    redis.call('SET', KEYS[seen_base + index], value, 'PX', ARGV[8])
  end
end
return keep(KEYS[2], number, answer)
