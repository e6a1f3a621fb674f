#!lua flags=allow-oom
-- acquire_partition: the caller acquires a partition that has no owner, or renews its own lease.
--
-- Returns: {epoch, how long releases must wait after the caller first saw this epoch, in ms; 0: no wait}
-- Errors: NEWER_SCHEMA <schema>, OWNED <epoch>
-- The script stores the longest lease: if the server forgets the owner, other senders must wait that long.
-- Sent again, it renews again: no call number is needed.
-- include: schema, clock, epoch

local held = redis.call('GET', key_owner) or ''
local token, renewals = string.match(held, '^(%S+) %d+ (%d+)$')
-- Check the epoch in any case: a refused caller must learn whether this server forgot that the caller was the owner.
local epoch, wait = current_epoch(key_epoch, now_ms(), seen_epoch)
if held ~= '' and token ~= own_token and held ~= seen_owner then
  return redis.error_reply('OWNED ' .. text(epoch))
end
if tonumber(lease_ms) > (tonumber(partition_of(key_epoch)[4]) or 0) then
  redis.call('HSET', key_epoch, 'lease_ms', lease_ms)
end
-- Each renewal changes the value, so that waiting senders see it.
local count = token == own_token and renewals + 1 or 1
redis.call('SET', key_owner, own_token .. ' ' .. lease_ms .. ' ' .. text(count))
return {text(epoch), text(wait)}
