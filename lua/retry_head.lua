#!lua flags=allow-oom
-- retry_head: retries a lane's head in its position on an operator's request: a halted head, optionally with
-- a repaired body, or one in backoff.
--
-- KEYS:
--   [1]  destination       reseq:{p07}:d:<dest>
--   [2]  waiting           reseq:{p07}:d:<dest>:waiting
--   [3]  messages          reseq:{p07}:d:<dest>:messages
--   [4]  attempts          reseq:{p07}:d:<dest>:attempts
--   [5]  delayed           reseq:{p07}:delayed
--   [6]  halted            reseq:{p07}:d:<dest>:halted
--   [7]  releasable        reseq:{p07}:releasable
--   [8]  lanes             reseq:{p07}:d:<dest>:lanes
--   [9]  active_builtin    reseq:{p07}:active:builtin
--   [10] active_worker     reseq:{p07}:active:worker
--   [11] wake_waiting      reseq:{p07}:wake:waiting
--   [12] wake_releasable   reseq:{p07}:wake:releasable
--   [13] in_progress       reseq:{p07}:d:<dest>:in-progress[:<key>]
--   [14] ready             reseq:{p07}:d:<dest>:ready[:<key>]
--   [15] epoch             reseq:{p07}:epoch
--   [16] bodies            reseq:{p07}:d:<dest>:bodies
-- ARGV:
--   [1] destination  [2] definition version  [3] 'destination', 'key' or 'none'  [4] lane's key (without
--   ordering: the sequence)  [5] sequence of the head, as the caller knows it  [6] its record with a repaired
--   body, or ''  [7] with a repaired body: the length of the stored record and body in bytes  [8] schema of
--   the record  [9] the repaired body if it is stored apart, or ''
-- Returns: 'waiting' or 'ready': its new state
-- Errors: NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD, WRONG_STATE
-- Sent again, it finds nothing to retry, and reports that: no call number is needed.
-- include: schema, clock, expect, attempts, head, wake, waiting

local schema = check_schema(KEYS[15])
if schema ~= ARGV[8] then return redis.error_reply('STALE_SCHEMA ' .. schema) end
local sequence, member = ARGV[5], ARGV[1] .. '/' .. ARGV[5]
local known = redis.call('HMGET', KEYS[1], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[2] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
if not is_head(ARGV[3], KEYS[13], sequence) then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane')
end
local place = {
  destination = ARGV[1], ordering = ARGV[3], hash = KEYS[1], waiting = KEYS[2], messages = KEYS[3],
  builtin = KEYS[9], worker = KEYS[10], wake = KEYS[11],
}
expect_waiting(place)
expect('HLEN', KEYS[3], KEYS[4], KEYS[16])
expect('ZCARD', KEYS[5], KEYS[6], KEYS[7], KEYS[8])

local is_finished = redis.call('ZSCORE', KEYS[14], sequence)
local is_halted = redis.call('ZSCORE', KEYS[6], sequence)
local is_delayed = redis.call('ZSCORE', KEYS[5], member)
if not is_halted and not is_finished and not is_delayed then
  return redis.error_reply('WRONG_STATE the head is waiting or being processed: nothing is to be retried')
end
if ARGV[6] ~= '' then
  if not is_halted then
    return redis.error_reply('WRONG_STATE only a halted message can be repaired')
  end
  local length = redis.call('HSTRLEN', KEYS[3], sequence) + redis.call('HSTRLEN', KEYS[16], sequence)
  if length ~= tonumber(ARGV[7]) then
    return redis.error_reply('WRONG_STATE the message has been changed meanwhile')
  end
end

if is_halted then
  redis.call('ZREM', KEYS[6], sequence)
  if is_finished then redis.call('HINCRBY', KEYS[1], 'halted_ready', -1) end
  local attempts = attempts_of(KEYS[4], sequence)
  keep_attempts(KEYS[4], sequence, new_attempts(attempts[3], attempts[6]))
end
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[3], sequence, ARGV[6])
  if ARGV[9] == '' then
    redis.call('HDEL', KEYS[16], sequence)
  else
    redis.call('HSET', KEYS[16], sequence, ARGV[9])
  end
end
if is_finished then
  may_leave(KEYS[7], KEYS[8], ARGV[1], ARGV[3], ARGV[4], '0')
  wake(KEYS[12], ARGV[1])
  return 'ready'
end
if is_delayed then
  redis.call('ZREM', KEYS[5], member)
  redis.call('HINCRBY', KEYS[1], 'delayed', -1)
end
to_front(place, {sequence})
return 'waiting'
