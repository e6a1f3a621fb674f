#!lua flags=allow-oom
-- extend: extends leases from now on, and stores checkpoints for the next attempts. Does not extend a lease if its
-- attempt has run for too long without storing a checkpoint.
--
-- Returns: {deadline in ms since 1970, 'ok' | 'attempt_timeout' | 'stale_lease' | 'settled' …} in the order of the
--   call
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it extends again: no call number is needed.
-- include: schema, clock, leases, attempts

check_schema(key_epoch)
local held = deadlines(key_leases, members_of(extensions))

local now = now_ms()
-- Set if attempts have a time limit: an attempt that made no progress since this time is over.
local since = attempt_ms_max ~= '0' and now - tonumber(attempt_ms_max)
local function is_over(extension)
  if not since or extension.checkpoint ~= '' or tonumber(extension.claimed_ms) > since then return false end
  return tonumber(attempts_of(key_attempts, extension.sequence)[9]) <= since
end

local deadline = text(now + tonumber(lease_ms))
local answer, scores = {deadline}, {}
for i, extension in ipairs(extensions) do
  local sequence = extension.sequence
  if not held[i] then
    answer[i + 1] = why_gone(key_messages, sequence)
  elseif is_over(extension) then
    answer[i + 1] = 'attempt_timeout'
  else
    scores[#scores + 1] = deadline
    scores[#scores + 1] = extension.member
    answer[i + 1] = 'ok'
    if extension.checkpoint ~= '' then
      local attempts = attempts_of(key_attempts, sequence)
      attempts[3], attempts[9] = extension.checkpoint, now
      keep_attempts(key_attempts, sequence, attempts)
    end
  end
end
if #scores > 0 then redis.call('ZADD', key_leases, 'XX', unpack(scores)) end
return answer
