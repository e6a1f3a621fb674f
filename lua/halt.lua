#!lua flags=allow-oom
-- halt: halts a lane's head because the receiver refused it permanently, or because it has no attempts left. The head
-- keeps its position and is not released; its lane waits for an operator.
--
-- Returns: 1; 0 if the head was halted before
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, NOT_OWNER, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, owner, attempts, head, consumers

local now = now_ms()
local epoch = current_epoch(key_epoch, now, seen_epoch)
if text(epoch) ~= owner_epoch then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if not owns(key_owner, token) then return redis.error_reply('NOT_OWNER another owns the partition') end
-- The sequences of a destination that was created again begin with 1: its head may have the same sequence.
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'delivery')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
if redis.call('ZSCORE', key_halted, sequence) then return 0 end
if not is_head(ordering, key_in_progress, sequence) or not redis.call('ZSCORE', key_ready, sequence) then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane')
end
-- A repair may have halted a message that the owner holds, and an operator may have withdrawn it since.
if string.sub(redis.call('HGET', key_messages, sequence) or '', 1, 1) == 'T' then
  return redis.error_reply('WRONG_HEAD the message was withdrawn')
end

local attempts = attempts_of(key_attempts, sequence)
attempts[1], attempts[4] = tonumber(failed), 'delivery'
note_error(attempts, now, problem)
keep_attempts(key_attempts, sequence, attempts)
if definition[3] == 'pull' then end_refusal(key_consumer_leases, lane) end
redis.call('HINCRBY', key_destination, 'halted_ready', 1)
redis.call('ZADD', key_halted, text(now), sequence)
if ordering ~= 'destination' then redis.call('ZREM', key_lanes, lane) end
return 1
