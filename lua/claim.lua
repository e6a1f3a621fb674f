#!lua flags=allow-oom
-- claim: gives a processor up to so many waiting messages of one destination, under a lease.
--
-- KEYS:
--   [1] call          reseq:{p07}:calls:<caller>
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] waiting       reseq:{p07}:d:<dest>:waiting
--   [4] messages      reseq:{p07}:d:<dest>:messages
--   [5] attempts      reseq:{p07}:d:<dest>:attempts
--   [6] leases        reseq:{p07}:leases
--   [7] active        reseq:{p07}:active:<builtin or worker>
--   [8] epoch         reseq:{p07}:epoch
-- ARGV:
--   [1] call number  [2] destination  [3] definition version  [4] secret (the same for the whole
--   call)  [5] lease, ms  [6] most messages  [7] most bytes of records (one is always given)
--   [8] least messages (with fewer waiting nothing is given; overrides the bytes)
--   [9] 'destination', 'key' or 'none'
-- Returns: {deadline in ms since 1970, {sequence, what attempts left or '', record}…}
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, expect

local number, destination, by_priority = tonumber(ARGV[1]), ARGV[2], ARGV[9] == 'none'
local least = tonumber(ARGV[8])

local function lease_of(sequence)
  return destination .. '/' .. sequence .. '/' .. ARGV[4]
end

-- The records are read again for an answer that is given again, and kept by nobody: only what is
-- still held under this secret is told. Also returns how many of the sequences are covered.
local function answer_of(deadline, sequences, room)
  local answer = {deadline}
  local attempts_kept = redis.call('HLEN', KEYS[5]) > 0
  for from = 1, #sequences, 32 do
    local chunk = {}
    for i = from, math.min(from + 31, #sequences) do chunk[#chunk + 1] = sequences[i] end
    local attempts = attempts_kept and redis.call('HMGET', KEYS[5], unpack(chunk)) or {}
    for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(chunk))) do
      if room <= 0 and #answer > least then return answer, from + i - 2 end
      if record then
        room = room - #record
        answer[#answer + 1] = {chunk[i], attempts[i] or '', record}
      end
    end
  end
  return answer, #sequences
end

local answered = replayed(KEYS[1], number)
if answered and answered.err then return answered end
if answered then
  local held = {}
  for i = 2, #answered do
    if redis.call('ZSCORE', KEYS[6], lease_of(answered[i])) then held[#held + 1] = answered[i] end
  end
  return (answer_of(answered[1], held, math.huge))
end

check_schema(KEYS[8])
local now = now_ms()
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

expect('ZCARD', KEYS[6], KEYS[7])
local most = tonumber(ARGV[6])
local sequences = redis.call(by_priority and 'ZRANGE' or 'LRANGE', KEYS[3], 0, most - 1)
local deadline = text(now + tonumber(ARGV[5]))
local answer, covered = answer_of(deadline, sequences, tonumber(ARGV[7]))
-- All or nothing: what there is stays where it is, for those who want less.
if #sequences > 0 and #answer - 1 < least then return keep(KEYS[1], number, {deadline}) end
if #sequences == 0 then
  redis.call('ZREM', KEYS[7], destination)
  return keep(KEYS[1], number, answer)
end

local leases, call = {}, {deadline}
for i = 2, #answer do
  local sequence = answer[i][1]
  leases[#leases + 1] = deadline
  leases[#leases + 1] = lease_of(sequence)
  call[#call + 1] = sequence
end
if by_priority then
  redis.call('ZREM', KEYS[3], unpack(sequences, 1, covered))
else
  redis.call('LTRIM', KEYS[3], covered, -1)
end
if #leases > 0 then redis.call('ZADD', KEYS[6], unpack(leases)) end
if redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('ZREM', KEYS[7], destination)
else
  redis.call('ZADD', KEYS[7], text(now), destination)
end
keep(KEYS[1], number, call)
return answer
