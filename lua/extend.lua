#!lua flags=allow-oom
-- extend: extends leases from now on, and stores checkpoints for the next attempts.
--
-- Returns: {deadline in ms since 1970, 'ok' | 'stale_lease' | 'settled' …} in order
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it extends again: no call number is needed.
-- include: schema, clock, leases, attempts

check_schema(key_epoch)
local held = deadlines(key_leases, members_of(extensions))

local deadline = text(now_ms() + tonumber(lease_ms))
local answer, scores = {deadline}, {}
for i, extension in ipairs(extensions) do
  local sequence = extension.sequence
  if held[i] then
    scores[#scores + 1] = deadline
    scores[#scores + 1] = extension.member
    answer[i + 1] = 'ok'
    if extension.checkpoint ~= '' then
      local attempts = attempts_of(key_attempts, sequence)
      attempts[3] = extension.checkpoint
      keep_attempts(key_attempts, sequence, attempts)
    end
  else
    answer[i + 1] = why_gone(key_messages, sequence)
  end
end
if #scores > 0 then redis.call('ZADD', key_leases, 'XX', unpack(scores)) end
return answer
