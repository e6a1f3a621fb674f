#!lua flags=allow-oom
-- acquire_partition: acquires a partition that has no owner, or renews the caller's lease.
--
-- KEYS:
--   [1] epoch   reseq:{p07}:epoch
--   [2] owner   reseq:{p07}:owner
-- ARGV:
--   [1] token  [2] lease, ms  [3] `known` of include/epoch.lua  [4] the value of the owner key that the caller has seen
--   unchanged for the lease which it names, by the caller's own clock; '': none
-- Returns: {epoch, for how long releases must wait after the caller first saw this epoch, in ms; 0: not at all}
-- Errors: NEWER_SCHEMA <schema>, OWNED <epoch>
-- Stores the longest lease: a server that forgets the owner lets others wait for as long.
-- Sent again, it renews again: no call number is needed.
-- include: schema, clock, epoch

local held = redis.call('GET', KEYS[2]) or ''
local token, renewals = string.match(held, '^(%S+) %d+ (%d+)$')
-- Always checked: a refused caller must learn whether this server forgot that it was the owner.
local epoch, wait = current_epoch(KEYS[1], now_ms(), ARGV[3])
if held ~= '' and token ~= ARGV[1] and held ~= ARGV[4] then
  return redis.error_reply('OWNED ' .. text(epoch))
end
if tonumber(ARGV[2]) > (tonumber(redis.call('HGET', KEYS[1], 'lease_ms')) or 0) then
  redis.call('HSET', KEYS[1], 'lease_ms', ARGV[2])
end
-- Each renewal changes the value, so that those who wait see it.
local count = token == ARGV[1] and renewals + 1 or 1
redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. text(count))
return {text(epoch), text(wait)}
