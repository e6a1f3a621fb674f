#!lua flags=allow-oom
-- reap: recovers messages of dead processors, and messages that are due. Halts messages whose leases expired
-- too often while nothing else could have crashed their worker.
--
-- KEYS:
--   [1] destination    reseq:{p07}:d:<dest>
--   [2] waiting        reseq:{p07}:d:<dest>:waiting
--   [3] attempts       reseq:{p07}:d:<dest>:attempts
--   [4] leases         reseq:{p07}:leases
--   [5] delayed        reseq:{p07}:delayed
--   [6] messages       reseq:{p07}:d:<dest>:messages
--   [7] halted         reseq:{p07}:d:<dest>:halted
--   [8] active_builtin   reseq:{p07}:active:builtin
--   [9] active_worker    reseq:{p07}:active:worker
--   [10] wake_waiting    reseq:{p07}:wake:waiting
--   [11] epoch           reseq:{p07}:epoch
-- ARGV:
--   [1] destination  [2] number of leases  [3] by how much the clock has stepped back since the members were added,
--   ms, or '0'  [4] how many leases of the destination expired together, at least; then the members of leases, then
--   members of delayed: hints, which this script checks again; then, after a step, the score of each that moves
-- Returns: {expired leases, ended delays, halted messages}
-- Errors: NEWER_SCHEMA <schema>
-- What has not expired, or is gone, stays unchanged: no call number is needed. After a step of the clock, leases and
-- backoffs move with it; the time of a delay that a producer asked for stays.
-- include: schema, clock, expect, attempts, wake, waiting

check_schema(KEYS[11])
local destination, lease_count, now = ARGV[1], tonumber(ARGV[2]), now_ms()
local known = redis.call('HMGET', KEYS[1], 'version', 'stalls_max', 'ordering')
local exists, most = known[1], tonumber(known[2]) or 0

-- So many leases are halved at most: the destination lists the suspects that are being processed.
local SUSPECTS_MAX = 512
local back_ms = tonumber(ARGV[3])
local count = (#ARGV - 4) / (back_ms > 0 and 2 or 1)

-- The members that are over, and those to move with the clock with their new scores.
local function over(key, from, to, moves)
  local members, moved, seen = {}, {}, {}
  for i = from, to do
    local score = tonumber(redis.call('ZSCORE', key, ARGV[i]) or '')
    if score and score <= now and not seen[ARGV[i]] then
      members[#members + 1] = ARGV[i]
    elseif score and back_ms > 0 and score == tonumber(ARGV[i + count]) and not seen[ARGV[i]] and moves(ARGV[i]) then
      moved[#moved + 1], moved[#moved + 2] = text(score - back_ms), ARGV[i]
    end
    seen[ARGV[i]] = true
  end
  return members, moved
end

local expired, moved_leases = over(KEYS[4], 5, 4 + lease_count, function() return true end)
local due, moved_delays = over(KEYS[5], 5 + lease_count, 4 + count, function(member)
  local attempts = attempts_of(KEYS[3], string.match(member, '%d+$'))
  return attempts[1] > 0 or attempts[7] > 0
end)
local place = {
  destination = destination, ordering = known[3], hash = KEYS[1], waiting = KEYS[2],
  messages = KEYS[6], builtin = KEYS[8], worker = KEYS[9], wake = KEYS[10],
}
expect_waiting(place)
expect('HLEN', KEYS[3], KEYS[6])
expect('ZCARD', KEYS[7])
-- True if nothing else of the partition was leased, so that nothing else seems to have crashed the worker.
local is_lone = ARGV[4] == '1' and redis.call('ZCARD', KEYS[4]) == 1

if #moved_leases > 0 then redis.call('ZADD', KEYS[4], unpack(moved_leases)) end
if #moved_delays > 0 then redis.call('ZADD', KEYS[5], unpack(moved_delays)) end
if #expired > 0 then redis.call('ZREM', KEYS[4], unpack(expired)) end
if #due > 0 then redis.call('ZREM', KEYS[5], unpack(due)) end
-- Leases and delays that a removed destination left behind end here.
if not exists then return {#expired, #due, 0} end

local back, halted = {}, {}
for _, member in ipairs(expired) do
  -- A lease that names no message is only removed.
  local sequence = string.match(member, '/(%d+)/') or ''
  local attempts = attempts_of(KEYS[3], sequence)
  attempts[2] = attempts[2] + 1
  -- Where no number of stalls is too many, nobody looks for the guilty one.
  if most > 0 then
    -- It was alone in its destination; from the third lease on also in its process, which claims see to.
    if is_lone or attempts[7] == 1 and attempts[2] > 2 then attempts[8] = attempts[8] + 1 end
    -- Half of those that it was processed with (include/suspects.lua).
    local together = attempts[7] > 0 and attempts[7] or tonumber(ARGV[4])
    attempts[7] = math.max(1, math.floor(math.min(together, SUSPECTS_MAX) / 2))
  end
  note_error(attempts, now, '{"stage":"transform","kind":"stalled","detail":"its lease ran out: the '
    .. 'processor died, or did not extend it in time"}')
  if sequence == '' then
    attempts = nil
  elseif most > 0 and attempts[8] >= most then
    attempts[4] = 'transform'
    halted[#halted + 1] = text(now)
    halted[#halted + 1] = sequence
  else
    back[#back + 1] = sequence
  end
  if attempts then keep_attempts(KEYS[3], sequence, attempts) end
end
for _, member in ipairs(due) do back[#back + 1] = string.match(member, '/(%d+)$') end
if #due > 0 then redis.call('HINCRBY', KEYS[1], 'delayed', -#due) end
if #halted > 0 then redis.call('ZADD', KEYS[7], unpack(halted)) end
if #back > 0 then to_front(place, back) end
return {#expired, #due, #halted / 2}
