#!lua flags=allow-oom
-- fail: an attempt to process did not succeed; the messages are tried again after a wait.
--
-- KEYS:
--   [1] call           reseq:{p07}:calls:<caller>
--   [2] destination    reseq:{p07}:d:<dest>
--   [3] waiting        reseq:{p07}:d:<dest>:waiting
--   [4] messages       reseq:{p07}:d:<dest>:messages
--   [5] attempts       reseq:{p07}:d:<dest>:attempts
--   [6] leases         reseq:{p07}:leases
--   [7] delayed        reseq:{p07}:delayed
--   [8] active_builtin   reseq:{p07}:active:builtin
--   [9] active_worker    reseq:{p07}:active:worker
--   [10] wake_waiting    reseq:{p07}:wake:waiting
-- ARGV:
--   [1] call number  [2] destination; then per message 3: sequence, member of leases, wait in ms
-- Returns: {'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: STALE_CALL
-- include: clock, call, expect, leases, waiting

local number, destination = tonumber(ARGV[1]), ARGV[2]
local answered = replayed(KEYS[1], number)
if answered then return answered end

local members = {}
for i = 3, #ARGV, 3 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[6], members)

local now = now_ms()
local answer, gone, at_once, due, failed = {}, {}, {}, {}, {}
for i, member in ipairs(members) do
  local sequence, wait_ms = ARGV[3 * i], tonumber(ARGV[3 * i + 2])
  if held[i] and not failed[sequence] then
    failed[sequence] = true
    answer[i] = 'ok'
    gone[#gone + 1] = member
    if wait_ms <= 0 then
      at_once[#at_once + 1] = sequence
    else
      due[#due + 1] = text(now + wait_ms)
      due[#due + 1] = destination .. '/' .. sequence
    end
  else
    answer[i] = why_gone(KEYS[4], sequence)
  end
end

if #gone > 0 then
  local active = active_of(KEYS[2], KEYS[8], KEYS[9])
  expect('HLEN', KEYS[5])
  expect('LLEN', KEYS[3])
  expect('ZCARD', KEYS[7], active)
  redis.call('ZREM', KEYS[6], unpack(gone))
  for sequence in pairs(failed) do redis.call('HINCRBY', KEYS[5], sequence, 1) end
  if #due > 0 then
    redis.call('ZADD', KEYS[7], unpack(due))
    redis.call('HINCRBY', KEYS[2], 'delayed', #due / 2)
  end
  if #at_once > 0 then
    table.sort(at_once, function(a, b) return tonumber(a) < tonumber(b) end)
    to_front(KEYS[3], active, KEYS[10], destination, at_once, now)
  end
end
return keep(KEYS[1], number, answer)
