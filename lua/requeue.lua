#!lua flags=allow-oom
-- requeue: puts claimed messages back into `waiting`, unprocessed. This does not count as an attempt.
--
-- Returns: {'ok' | 'stale_lease' | 'settled' …} in the order of the call
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>
-- include: schema, clock, call, leases, wake, waiting

local number = tonumber(call_number)
local answered = replayed(key_call, number)
if answered then return answered end
check_schema(key_epoch)

local held = deadlines(key_leases, members_of(leases))
-- Read from the destination itself, because the caller may know an old definition.
local place = {
  destination = destination, ordering = redis.call('HGET', key_destination, 'ordering'), hash = key_destination,
  waiting = key_waiting, messages = key_messages, builtin = key_active_builtin, worker = key_active_worker,
  wake = key_wake_waiting,
}

local answer, gone, back, requeued = {}, {}, {}, {}
for i, lease in ipairs(leases) do
  local sequence = lease.sequence
  if held[i] and not requeued[sequence] then
    requeued[sequence] = true
    answer[i] = 'ok'
    gone[#gone + 1] = lease.member
    back[#back + 1] = sequence
  else
    answer[i] = why_gone(key_messages, sequence)
  end
end

if #gone > 0 then
  redis.call('ZREM', key_leases, unpack(gone))
  to_front(place, back)
end
return keep(key_call, number, answer)
