#!lua flags=allow-oom
-- postpone: delays a lane's head that the receiver refused. The head keeps its position. When the wait is over, the
-- sender that owns the partition tries the head again.
--
-- Returns: when the head may be released, in ms since 1970
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, NOT_OWNER, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD
-- Sent again, it waits again: no call number is needed.
-- include: schema, clock, epoch, owner, attempts, head, consumers

local now = now_ms()
local epoch = current_epoch(key_epoch, now, seen_epoch)
if text(epoch) ~= owner_epoch then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if not owns(key_owner, token) then return redis.error_reply('NOT_OWNER another owns the partition') end
-- The sequences of a destination that was created again begin with 1: its head may have the same sequence.
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'delivery')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
if not is_head(ordering, key_in_progress, sequence) then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane')
end

local not_before = now + tonumber(wait_ms)
local attempts = attempts_of(key_attempts, sequence)
failed = tonumber(failed)
local has_failed_again = attempts[1] ~= failed
attempts[1] = failed
if has_failed_again then note_error(attempts, now, problem) end
keep_attempts(key_attempts, sequence, attempts)
if definition[3] == 'pull' then end_refusal(key_consumer_leases, lane) end
may_leave(key_releasable, key_lanes, destination, ordering, lane, text(not_before))
return text(not_before)
