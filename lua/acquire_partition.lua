#!lua flags=allow-oom
-- acquire_partition: acquires a partition that has no owner, or renews the caller's lease.
--
-- KEYS:
--   [1] epoch   reseq:{p07}:epoch
--   [2] owner   reseq:{p07}:owner
-- ARGV:
--   [1] token  [2] lease, ms  [3] `known` of include/epoch.lua
-- Returns: {epoch, milliseconds that releases must still wait}
-- Errors: NEWER_SCHEMA <schema>, OWNED <milliseconds that the other's lease lasts> <epoch>
-- Stores the longest lease: a server that forgets the owner lets others wait for as long.
-- Sent again, it renews again: no call number is needed.
-- include: schema, clock, epoch

local now, lease_ms = now_ms(), tonumber(ARGV[2])
local held, deadline = string.match(redis.call('GET', KEYS[2]) or '', '^(%S+) (%d+)$')
-- Always checked: a refused caller must learn whether this server forgot that it was the owner.
local epoch, wait = current_epoch(KEYS[1], now, ARGV[3])
if held and held ~= ARGV[1] and tonumber(deadline) > now then
  return redis.error_reply('OWNED ' .. text(tonumber(deadline) - now) .. ' ' .. text(epoch))
end
if lease_ms > (tonumber(redis.call('HGET', KEYS[1], 'lease_ms')) or 0) then
  redis.call('HSET', KEYS[1], 'lease_ms', ARGV[2])
end
redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. text(now + lease_ms), 'PX', 2 * lease_ms)
return {text(epoch), text(wait)}
