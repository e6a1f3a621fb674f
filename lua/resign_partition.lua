#!lua flags=allow-oom
-- resign_partition: gives up a partition, so that another sender need not wait for the lease to expire. If
-- the caller also vouches that no sender of an earlier epoch still sends, ends the takeover wait.
--
-- KEYS:
--   [1] owner        reseq:{p07}:owner
--   [2] wake_owner   reseq:{p07}:wake:owner
--   [3] epoch        reseq:{p07}:epoch
-- ARGV:
--   [1] token  [2] `known` of include/epoch.lua  [3] the epoch for which the caller
--   vouches that no sender from before it still sends; '': the caller does not vouch
-- Returns: {1, or 0 if the token no longer owned it; the epoch}
-- Errors: NEWER_SCHEMA <schema>
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, wake

local held = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) ')
local epoch, wait = current_epoch(KEYS[3], now_ms(), ARGV[2])
-- Only for this epoch: another may have begun since. The owner key cannot replace the vouching, because this
-- server's copy may be older than the last renewal.
if wait > 0 and ARGV[3] == text(epoch) then
  redis.call('HSET', KEYS[3], 'takeover_wait_ms', '0')
end
if held ~= ARGV[1] then return {0, text(epoch)} end
redis.call('DEL', KEYS[1])
wake(KEYS[2], 'free')
return {1, text(epoch)}
