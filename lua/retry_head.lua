#!lua flags=allow-oom
-- retry_head: retries a lane's head in its position on an operator's request: a halted head, optionally with a
-- repaired body, or a head in backoff. Also makes a delayed message due now, at any position in its lane.
--
-- Returns: the new state of the message: 'waiting' or 'ready'
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD, WRONG_STATE
-- Sent again, it finds nothing to retry, and returns an error: no call number is needed.
-- include: schema, clock, attempts, head, wake, waiting

local schema = check_schema(key_epoch)
if schema ~= record_schema then return redis.error_reply('STALE_SCHEMA ' .. schema) end
local member = destination .. '/' .. sequence
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local is_delayed = redis.call('ZSCORE', key_delayed, member)
local leads = is_head(ordering, key_in_progress, sequence)
local attempts = attempts_of(key_attempts, sequence)
-- With serial processing: the message is delayed and awaits its turn.
local is_held = not leads and attempts[5] ~= ''
if not leads and not is_delayed and not is_held then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane, and not delayed')
end
local place = {
  destination = destination, ordering = ordering, hash = key_destination, waiting = key_waiting,
  messages = key_messages, builtin = key_active_builtin, worker = key_active_worker, wake = key_wake_waiting,
}

local is_finished = redis.call('ZSCORE', key_ready, sequence)
local is_halted = redis.call('ZSCORE', key_halted, sequence)
if not is_halted and not is_finished and not is_delayed and not is_held then
  return redis.error_reply('WRONG_STATE the head is waiting or being processed: nothing is to be retried')
end
if repaired ~= '' then
  if not is_halted then
    return redis.error_reply('WRONG_STATE only a halted message can be repaired')
  end
  local length = redis.call('HSTRLEN', key_messages, sequence) + redis.call('HSTRLEN', key_bodies, sequence)
  if length ~= tonumber(stored_bytes) then
    return redis.error_reply('WRONG_STATE the message has been changed meanwhile')
  end
end

if is_halted then
  redis.call('ZREM', key_halted, sequence)
  if is_finished then redis.call('HINCRBY', key_destination, 'halted_ready', -1) end
  keep_attempts(key_attempts, sequence, new_attempts(attempts[3], attempts[6]))
end
if repaired ~= '' then
  redis.call('HSET', key_messages, sequence, repaired)
  if repaired_body == '' then
    redis.call('HDEL', key_bodies, sequence)
  else
    redis.call('HSET', key_bodies, sequence, repaired_body)
  end
end
if is_finished then
  may_leave(key_releasable, key_lanes, destination, ordering, lane, '0')
  wake(key_wake_releasable, destination)
  return 'ready'
end
if is_held then
  attempts[5] = ''
  keep_attempts(key_attempts, sequence, attempts)
  return 'waiting'
end
if is_delayed then
  redis.call('ZREM', key_delayed, member)
  redis.call('HINCRBY', key_destination, 'delayed', -1)
end
to_front(place, {sequence})
return 'waiting'
