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
-- ARGV:
--   [1] call number  [2] destination  [3] definition version  [4] secret (the same for the whole
--   call)  [5] lease, ms  [6] most messages  [7] most bytes of records (one is always given)
-- Returns: {deadline in ms since 1970, {sequence, attempts so far, record}…}
-- Errors: STALE_CALL, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: clock, call, expect

local number, destination = tonumber(ARGV[1]), ARGV[2]

local function lease_of(sequence)
  return destination .. '/' .. sequence .. '/' .. ARGV[4]
end

-- The records are read again for an answer that is given again, and kept by nobody: only what is
-- still held under this secret is told. Also returns how many of the sequences are covered.
local function answer_of(deadline, sequences, room)
  local answer = {deadline}
  local attempts_kept = redis.call('EXISTS', KEYS[5]) == 1
  for from = 1, #sequences, 32 do
    local chunk = {}
    for i = from, math.min(from + 31, #sequences) do chunk[#chunk + 1] = sequences[i] end
    local attempts = attempts_kept and redis.call('HMGET', KEYS[5], unpack(chunk)) or {}
    for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(chunk))) do
      if room <= 0 then return answer, from + i - 2 end
      if record then
        room = room - #record
        answer[#answer + 1] = {chunk[i], attempts[i] or '0', record}
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

local now = now_ms()
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

expect('ZCARD', KEYS[6], KEYS[7])
local most = tonumber(ARGV[6])
local sequences = redis.call('LRANGE', KEYS[3], 0, most - 1)
local deadline = text(now + tonumber(ARGV[5]))
local answer, covered = answer_of(deadline, sequences, tonumber(ARGV[7]))
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
redis.call('LTRIM', KEYS[3], covered, -1)
if #leases > 0 then redis.call('ZADD', KEYS[6], unpack(leases)) end
if redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('ZREM', KEYS[7], destination)
else
  redis.call('ZADD', KEYS[7], text(now), destination)
end
keep(KEYS[1], number, call)
return answer
