#!lua flags=allow-oom
-- forget_destination: completes the removal of a destination. A destination that is created in this partition later
-- gets a higher version, and an epoch above any epoch that a message of the removed destination may have carried. So
-- a destination with the same name, whose sequences begin with 1 again, never repeats a position (epoch, sequence).
-- The epoch of the partition stays, so other destinations and the owner are not affected.
--
-- Returns: the highest epoch that a message of the destination may have carried, or 0 if there was nothing to forget
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, expect

check_schema(key_epoch)
if redis.call('EXISTS', key_destination) == 0 then return '0' end
local definition = redis.call('HMGET', key_destination, 'deleted', 'born', 'version')
if not definition[1] then return redis.error_reply('WRONG_STATE the destination is not being removed') end
expect('ZCARD', key_active_builtin, key_active_worker, key_releasable, key_consumers, key_withdrawing)
local epoch = current_epoch(key_epoch, now_ms(), seen_epoch)
local removed = redis.call('HMGET', key_epoch, 'removed_epoch', 'removed_version')
local carried = math.max(epoch, tonumber(definition[2]) or 0)
local function at_least(noted, number) return text(math.max(tonumber(noted) or 0, tonumber(number) or 0)) end
redis.call('HSET', key_epoch, 'removed_epoch', at_least(removed[1], carried),
  'removed_version', at_least(removed[2], definition[3]))
redis.call('UNLINK', key_destination, key_waiting, key_messages, key_attempts, key_lanes, key_in_progress, key_ready,
  key_halted, key_withdrawals, key_idempotency_keys, key_dead_letters, key_dead_letter_messages, key_dead_lettered_at,
  key_log, key_log_order, key_bodies, key_withdrawn, key_previous, key_ids, key_consumer_leases,
  key_consumer_lease_ends, key_sources)
-- Removes hints that were added after the removal began.
for _, hints in ipairs({key_active_builtin, key_active_worker, key_releasable, key_consumers, key_withdrawing}) do
  redis.call('ZREM', hints, destination)
end
return text(carried)
