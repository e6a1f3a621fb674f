#!lua flags=allow-oom
-- resign_partition: gives a partition back, so that another sender need not wait for the lease to run out. Who
-- also vouches that no sender of an earlier epoch sends any more ends the takeover wait.
--
-- KEYS:
--   [1] owner        reseq:{p07}:owner
--   [2] wake_owner   reseq:{p07}:wake:owner
--   [3] epoch        reseq:{p07}:epoch
-- ARGV:
--   [1] token  [2] known of the epoch (include/epoch.lua)  [3] the epoch before which, as the caller
--   vouches, no sender sends any more; '': it vouches for nothing
-- Returns: {1, or 0 if the token did not own it any more; the epoch}
-- Errors: NEWER_SCHEMA <schema>
-- Sent again it changes nothing: no call number is needed.
-- include: schema, clock, epoch, wake

local held = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) ')
local now = now_ms()
local epoch, wait = current_epoch(KEYS[3], now, ARGV[2])
-- Bound to this epoch: another may have begun since. Nothing found here can take its place: what
-- this server holds of an owner may be older than the last renewal.
if wait > 0 and ARGV[3] == text(epoch) then
  redis.call('HSET', KEYS[3], 'takeover_wait_ends_ms', text(now))
end
if held ~= ARGV[1] then return {0, text(epoch)} end
redis.call('DEL', KEYS[1])
wake(KEYS[2], 'free')
return {1, text(epoch)}
