#!lua flags=allow-oom
-- unclaim: hands claimed messages back unprocessed; no attempt is counted.
--
-- KEYS:
--   [1] call           reseq:{p07}:calls:<caller>
--   [2] waiting        reseq:{p07}:d:<dest>:waiting
--   [3] messages       reseq:{p07}:d:<dest>:messages
--   [4] leases         reseq:{p07}:leases
--   [5] active         reseq:{p07}:active:<builtin or worker>
--   [6] wake_waiting   reseq:{p07}:wake:waiting
-- ARGV:
--   [1] call number  [2] destination; then per message 2: sequence, member of leases
-- Returns: {'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: STALE_CALL
-- include: clock, call, leases, waiting

local number, destination = tonumber(ARGV[1]), ARGV[2]
local answered = replayed(KEYS[1], number)
if answered then return answered end

local members = {}
for i = 3, #ARGV, 2 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[4], members)

local answer, gone, back, unclaimed = {}, {}, {}, {}
for i, member in ipairs(members) do
  local sequence = ARGV[2 * i + 1]
  if held[i] and not unclaimed[sequence] then
    unclaimed[sequence] = true
    answer[i] = 'ok'
    gone[#gone + 1] = member
    back[#back + 1] = sequence
  else
    answer[i] = why_gone(KEYS[3], sequence)
  end
end

if #gone > 0 then
  redis.call('ZREM', KEYS[4], unpack(gone))
  table.sort(back, function(a, b) return tonumber(a) < tonumber(b) end)
  to_front(KEYS[2], KEYS[5], KEYS[6], destination, back, now_ms())
end
return keep(KEYS[1], number, answer)
