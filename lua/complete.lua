#!lua flags=allow-oom
-- complete: what was claimed has been processed; stores the outputs and makes the messages ready.
--
-- KEYS:
--   [1] call              reseq:{p07}:calls:<caller>
--   [2] destination       reseq:{p07}:d:<dest>
--   [3] messages          reseq:{p07}:d:<dest>:messages
--   [4] attempts          reseq:{p07}:d:<dest>:attempts
--   [5] leases            reseq:{p07}:leases
--   [6] releasable        reseq:{p07}:releasable
--   [7] lanes             reseq:{p07}:d:<dest>:lanes
--   [8] wake_releasable   reseq:{p07}:wake:releasable
--   [9…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   [1] call number  [2] destination  [3] 'destination' or 'key'  [4] number of lanes
--   then the lanes' keys, then per message 4: its lane (from 1), sequence, member of leases, record
-- Returns: {'ok' | 'stale_lease' | 'settled' …} in order; settled: it was completed before
-- Errors: STALE_CALL
-- include: clock, call, expect, leases

local number = tonumber(ARGV[1])
local answered = replayed(KEYS[1], number)
if answered then return answered end

local destination, by_key, lane_count = ARGV[2], ARGV[3] == 'key', tonumber(ARGV[4])
local sequences, members = {}, {}
for i = 5 + lane_count, #ARGV, 4 do
  sequences[#sequences + 1] = ARGV[i + 1]
  members[#members + 1] = ARGV[i + 2]
end
local held = deadlines(KEYS[5], members)
expect('HLEN', KEYS[2], KEYS[3])
expect('ZCARD', KEYS[6], KEYS[7])
for lane = 1, lane_count do expect('ZCARD', KEYS[8 + 2 * lane]) end
local attempts_kept = redis.call('HLEN', KEYS[4]) > 0

-- A token names its lane: one that was tampered with, or that comes with the ordering of an old
-- definition, must not reach into another. One lane, which may have many, is asked once.
local of_one_lane
if lane_count == 1 then
  of_one_lane = redis.call('ZMSCORE', KEYS[7 + 2 * lane_count], unpack(sequences))
end
local function stands_in(in_progress, i)
  if of_one_lane then return of_one_lane[i] end
  return redis.call('ZSCORE', in_progress, sequences[i])
end

local answer, gone, records, done, scores, completed = {}, {}, {}, {}, {}, {}
for i = 1, #members do
  local base = 1 + lane_count + 4 * i
  local lane, sequence = tonumber(ARGV[base]), ARGV[base + 1]
  local in_progress, ready = KEYS[7 + 2 * lane], KEYS[8 + 2 * lane]
  if held[i] and not completed[sequence] and stands_in(in_progress, i) then
    completed[sequence] = true
    local of_lane = scores[lane] or {}
    scores[lane] = of_lane
    of_lane[#of_lane + 1] = sequence
    of_lane[#of_lane + 1] = sequence
    gone[#gone + 1] = members[i]
    done[#done + 1] = sequence
    records[#records + 1] = sequence
    records[#records + 1] = ARGV[base + 3]
    answer[i] = 'ok'
  elseif completed[sequence] or redis.call('ZSCORE', ready, sequence) then
    answer[i] = 'settled'
  else
    answer[i] = why_gone(KEYS[3], sequence)
  end
end

if #done > 0 then
  local now = text(now_ms())
  redis.call('ZREM', KEYS[5], unpack(gone))
  redis.call('HSET', KEYS[3], unpack(records))
  redis.call('HINCRBY', KEYS[2], 'ready', #done)
  if attempts_kept then redis.call('HDEL', KEYS[4], unpack(done)) end
  local releasable = false
  for lane, of_lane in pairs(scores) do
    redis.call('ZADD', KEYS[8 + 2 * lane], unpack(of_lane))
    local head = redis.call('ZRANGE', KEYS[7 + 2 * lane], 0, 0)[1]
    if head and completed[head] then
      releasable = true
      if by_key then redis.call('ZADD', KEYS[7], now, ARGV[4 + lane]) end
    end
  end
  if releasable then
    redis.call('ZADD', KEYS[6], 'LT', now, destination)
    redis.call('PUBLISH', KEYS[8], destination)
  end
end
return keep(KEYS[1], number, answer)
