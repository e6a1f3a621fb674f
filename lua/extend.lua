#!lua flags=allow-oom
-- extend: extends leases from now on, and stores checkpoints for the next attempts.
--
-- KEYS:
--   [1] messages   reseq:{p07}:d:<dest>:messages
--   [2] leases     reseq:{p07}:leases
--   [3] attempts   reseq:{p07}:d:<dest>:attempts
--   [4] epoch      reseq:{p07}:epoch
-- ARGV:
--   [1] lease, ms; then 3 per lease: sequence, member of leases, checkpoint as JSON ('': unchanged)
-- Returns: {deadline in ms since 1970, 'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it extends again: no call number is needed.
-- include: schema, clock, expect, leases, attempts

check_schema(KEYS[4])
local members = {}
for i = 2, #ARGV, 3 do members[#members + 1] = ARGV[i + 1] end
local held = deadlines(KEYS[2], members)
expect('HLEN', KEYS[3])

local deadline = text(now_ms() + tonumber(ARGV[1]))
local answer, scores = {deadline}, {}
for i, member in ipairs(members) do
  local sequence, checkpoint = ARGV[3 * i - 1], ARGV[3 * i + 1]
  if held[i] then
    scores[#scores + 1] = deadline
    scores[#scores + 1] = member
    answer[i + 1] = 'ok'
    if checkpoint ~= '' then
      local attempts = attempts_of(KEYS[3], sequence)
      attempts[3] = checkpoint
      keep_attempts(KEYS[3], sequence, attempts)
    end
  else
    answer[i + 1] = why_gone(KEYS[1], sequence)
  end
end
if #scores > 0 then redis.call('ZADD', KEYS[2], 'XX', unpack(scores)) end
return answer
