#!lua flags=allow-oom
-- fail: ends failed processing attempts. Each message gets another attempt after a wait, or halts if its attempts are
-- used up. With `later_max`, the attempt did not fail: its worker asks for the message later. This counts no attempt,
-- and the message halts only if its worker has asked more often than that.
--
-- Returns: {'ok' | 'halted' | 'stale_lease' | 'settled' …} in order
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>
-- include: schema, clock, call, leases, attempts, wake, waiting

local number = tonumber(call_number)
local answered = replayed(key_call, number)
if answered then return answered end
check_schema(key_epoch)

local held = deadlines(key_leases, members_of(failures))
-- Read from the destination itself, because the caller may know an old definition.
local known = redis.call('HMGET', key_destination, 'ordering', 'attempts_max')
local most = tonumber(known[2]) or 0
local place = {
  destination = destination, ordering = known[1], hash = key_destination, waiting = key_waiting,
  messages = key_messages, builtin = key_active_builtin, worker = key_active_worker, wake = key_wake_waiting,
}

local now = now_ms()
local answer, gone, at_once, due, halted, failed = {}, {}, {}, {}, {}, {}
for i, failure in ipairs(failures) do
  local sequence, wait_ms = failure.sequence, tonumber(failure.wait_ms)
  if held[i] and not failed[sequence] then
    local attempts = attempts_of(key_attempts, sequence)
    local later_max = tonumber(failure.later_max)
    local asks_later = later_max > 0
    -- Its producer may have asked for fewer attempts.
    local asked_max = tonumber(failure.attempts_max)
    local attempts_max = asked_max > 0 and (most == 0 or asked_max < most) and asked_max or most
    local is_used_up
    -- The worker is alive, so the message is not a suspect.
    attempts[7], attempts[11] = 0, asks_later and 1 or 0
    if asks_later then
      attempts[10] = attempts[10] + 1
      is_used_up = attempts[10] > later_max
    else
      attempts[1] = attempts[1] + 1
      is_used_up = failure.is_final == '1' or attempts_max > 0 and attempts[1] >= attempts_max
    end
    if is_used_up or not asks_later then note_error(attempts, now, failure.problem) end
    failed[sequence] = attempts
    gone[#gone + 1] = failure.member
    answer[i] = 'ok'
    if is_used_up then
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
    answer[i] = why_gone(key_messages, sequence)
  end
end

if #gone > 0 then
  redis.call('ZREM', key_leases, unpack(gone))
  for sequence, attempts in pairs(failed) do keep_attempts(key_attempts, sequence, attempts) end
  if #halted > 0 then redis.call('ZADD', key_halted, unpack(halted)) end
  if #due > 0 then
    redis.call('ZADD', key_delayed, unpack(due))
    redis.call('HINCRBY', key_destination, 'delayed', #due / 2)
  end
  if #at_once > 0 then to_front(place, at_once) end
end
return keep(key_call, number, answer)
