#!lua flags=allow-oom
-- extend: makes leases last longer, from now on.
--
-- KEYS:
--   [1] messages   reseq:{p07}:d:<dest>:messages
--   [2] leases     reseq:{p07}:leases
-- ARGV:
--   [1] lease, ms; then per lease 2: sequence, member of leases
-- Returns: {deadline in ms since 1970, 'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: none. Sent again it extends again: no call number is needed.
-- include: clock, leases

local members = {}
for i = 2, #ARGV, 2 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[2], members)

local deadline = text(now_ms() + tonumber(ARGV[1]))
local answer, scores = {deadline}, {}
for i, member in ipairs(members) do
  if held[i] then
    scores[#scores + 1] = deadline
    scores[#scores + 1] = member
    answer[i + 1] = 'ok'
  else
    answer[i + 1] = why_gone(KEYS[1], ARGV[2 * i])
  end
end
if #scores > 0 then redis.call('ZADD', KEYS[2], 'XX', unpack(scores)) end
return answer
