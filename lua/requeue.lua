#!lua flags=allow-oom
-- requeue: returns claimed messages unprocessed, without counting an attempt.
--
-- KEYS:
--   [1] call           reseq:{p07}:calls:<caller>
--   [2] destination    reseq:{p07}:d:<dest>
--   [3] waiting        reseq:{p07}:d:<dest>:waiting
--   [4] messages       reseq:{p07}:d:<dest>:messages
--   [5] leases         reseq:{p07}:leases
--   [6] active_builtin   reseq:{p07}:active:builtin
--   [7] active_worker    reseq:{p07}:active:worker
--   [8] wake_waiting     reseq:{p07}:wake:waiting
--   [9] epoch            reseq:{p07}:epoch
-- ARGV:
--   [1] call number  [2] destination; then 2 per message: sequence, member of leases
-- Returns: {'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>
-- include: schema, clock, call, expect, leases, wake, waiting

local number, destination = tonumber(ARGV[1]), ARGV[2]
local answered = replayed(KEYS[1], number)
if answered then return answered end
check_schema(KEYS[9])

local members = {}
for i = 3, #ARGV, 2 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[5], members)
-- Read from the destination itself, because the caller may know an old definition.
local place = {
  destination = destination, ordering = redis.call('HGET', KEYS[2], 'ordering'), hash = KEYS[2], waiting = KEYS[3],
  messages = KEYS[4], builtin = KEYS[6], worker = KEYS[7], wake = KEYS[8],
}

local answer, gone, back, requeued = {}, {}, {}, {}
for i, member in ipairs(members) do
  local sequence = ARGV[2 * i + 1]
  if held[i] and not requeued[sequence] then
    requeued[sequence] = true
    answer[i] = 'ok'
    gone[#gone + 1] = member
    back[#back + 1] = sequence
  else
    answer[i] = why_gone(KEYS[4], sequence)
  end
end

if #gone > 0 then
  expect_waiting(place)
  redis.call('ZREM', KEYS[5], unpack(gone))
  to_front(place, back)
end
return keep(KEYS[1], number, answer)
