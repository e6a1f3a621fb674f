#!lua flags=allow-oom
-- reap: takes up again what a dead processor held, and what has waited out its backoff.
--
-- KEYS:
--   [1] destination    reseq:{p07}:d:<dest>
--   [2] waiting        reseq:{p07}:d:<dest>:waiting
--   [3] attempts       reseq:{p07}:d:<dest>:attempts
--   [4] leases         reseq:{p07}:leases
--   [5] delayed        reseq:{p07}:delayed
--   [6] active_builtin   reseq:{p07}:active:builtin
--   [7] active_worker    reseq:{p07}:active:worker
--   [8] wake_waiting     reseq:{p07}:wake:waiting
-- ARGV:
--   [1] destination  [2] number of leases; then that many members of leases, then members of delayed:
--   hints of what may be over, looked at again here
-- Returns: {leases that had run out, delays that were over}
-- Errors: none. What is not over, or not there any more, is left alone: no call number is needed.
-- include: clock, expect, waiting

local destination, lease_count, now = ARGV[1], tonumber(ARGV[2]), now_ms()
local exists = redis.call('HEXISTS', KEYS[1], 'version') == 1

local function over(key, from, to)
  local members, seen = {}, {}
  for i = from, to do
    local score = redis.call('ZSCORE', key, ARGV[i])
    if score and tonumber(score) <= now and not seen[ARGV[i]] then
      seen[ARGV[i]] = true
      members[#members + 1] = ARGV[i]
    end
  end
  return members
end

local expired = over(KEYS[4], 3, 2 + lease_count)
local due = over(KEYS[5], 3 + lease_count, #ARGV)
local active = active_of(KEYS[1], KEYS[6], KEYS[7])
expect('LLEN', KEYS[2])
expect('HLEN', KEYS[3])
expect('ZCARD', active)
local back = {}
for _, member in ipairs(expired) do
  local sequence = string.match(member, '/(%d+)/')
  back[#back + 1] = sequence
  if exists then redis.call('HINCRBY', KEYS[3], sequence, 1) end
end
for _, member in ipairs(due) do back[#back + 1] = string.match(member, '/(%d+)$') end

if #expired > 0 then redis.call('ZREM', KEYS[4], unpack(expired)) end
if #due > 0 then redis.call('ZREM', KEYS[5], unpack(due)) end
-- A destination that was removed leaves its leases and delays behind; here they end.
if exists and #back > 0 then
  if #due > 0 then redis.call('HINCRBY', KEYS[1], 'delayed', -#due) end
  table.sort(back, function(a, b) return tonumber(a) < tonumber(b) end)
  to_front(KEYS[2], active, KEYS[8], destination, back, now)
end
return {#expired, #due}
