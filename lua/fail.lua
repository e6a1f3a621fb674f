#!lua flags=allow-oom
-- fail: ends failed processing attempts. The messages are tried again after a wait, or halted if their
-- attempts are used up.
--
-- KEYS:
--   [1] call           reseq:{p07}:calls:<caller>
--   [2] destination    reseq:{p07}:d:<dest>
--   [3] waiting        reseq:{p07}:d:<dest>:waiting
--   [4] messages       reseq:{p07}:d:<dest>:messages
--   [5] attempts       reseq:{p07}:d:<dest>:attempts
--   [6] leases         reseq:{p07}:leases
--   [7] delayed        reseq:{p07}:delayed
--   [8] halted         reseq:{p07}:d:<dest>:halted
--   [9] active_builtin    reseq:{p07}:active:builtin
--   [10] active_worker    reseq:{p07}:active:worker
--   [11] wake_waiting     reseq:{p07}:wake:waiting
--   [12] epoch            reseq:{p07}:epoch
-- ARGV:
--   [1] call number  [2] destination; then 5 per message: sequence, member of leases, wait in ms, '1' if
--   the failure is final, error as JSON
-- Returns: {'ok' | 'halted' | 'stale_lease' | 'settled' …} in order
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>
-- include: schema, clock, call, expect, leases, attempts, wake, waiting

local number, destination = tonumber(ARGV[1]), ARGV[2]
local answered = replayed(KEYS[1], number)
if answered then return answered end
check_schema(KEYS[12])

local members = {}
for i = 3, #ARGV, 5 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[6], members)
-- Read from the destination itself, because the caller may know an old definition.
local known = redis.call('HMGET', KEYS[2], 'ordering', 'attempts_max')
local most = tonumber(known[2]) or 0
local place = {
  destination = destination, ordering = known[1], hash = KEYS[2], waiting = KEYS[3],
  messages = KEYS[4], builtin = KEYS[9], worker = KEYS[10], wake = KEYS[11],
}
expect('HLEN', KEYS[5])
expect('ZCARD', KEYS[7], KEYS[8])
expect_waiting(place)

local now = now_ms()
local answer, gone, at_once, due, halted, failed = {}, {}, {}, {}, {}, {}
for i, member in ipairs(members) do
  local base = 5 * i - 2
  local sequence, wait_ms, is_final = ARGV[base], tonumber(ARGV[base + 2]), ARGV[base + 3] == '1'
  if held[i] and not failed[sequence] then
    local attempts = attempts_of(KEYS[5], sequence)
    -- Its worker lives, so the message is no suspect.
    attempts[1], attempts[7] = attempts[1] + 1, 0
    note_error(attempts, now, ARGV[base + 4])
    failed[sequence] = attempts
    gone[#gone + 1] = member
    answer[i] = 'ok'
    if is_final or most > 0 and attempts[1] >= most then
      answer[i] = 'halted'
      attempts[4] = 'transform'
      halted[#halted + 1] = text(now)
      halted[#halted + 1] = sequence
    elseif wait_ms <= 0 then
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
  redis.call('ZREM', KEYS[6], unpack(gone))
  for sequence, attempts in pairs(failed) do keep_attempts(KEYS[5], sequence, attempts) end
  if #halted > 0 then redis.call('ZADD', KEYS[8], unpack(halted)) end
  if #due > 0 then
    redis.call('ZADD', KEYS[7], unpack(due))
    redis.call('HINCRBY', KEYS[2], 'delayed', #due / 2)
  end
  if #at_once > 0 then to_front(place, at_once) end
end
return keep(KEYS[1], number, answer)
