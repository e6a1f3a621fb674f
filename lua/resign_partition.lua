#!lua flags=allow-oom
-- resign_partition: gives up a partition, so that another sender does not have to wait for the lease to expire. If
-- the caller also vouches that no sender of an earlier epoch still sends, the script ends the takeover wait.
--
-- Returns: {1, or 0 if the token did not own the partition any more; the epoch}
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, wake

local held = string.match(redis.call('GET', key_owner) or '', '^(%S+) ')
local epoch, wait = current_epoch(key_epoch, now_ms(), seen_epoch)
-- A caller vouches for one epoch only: another epoch may have begun since. The owner key cannot replace this, because
-- this server's copy of it may be older than the last renewal.
if wait > 0 and vouched_epoch == text(epoch) then
  redis.call('HSET', key_epoch, 'takeover_wait_ms', '0')
end
if held ~= token then return {0, text(epoch)} end
redis.call('DEL', key_owner)
wake(key_wake_owner, 'free')
return {1, text(epoch)}
