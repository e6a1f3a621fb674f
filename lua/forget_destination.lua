#!lua flags=allow-oom
-- forget_destination: completes the removal of a destination. Destinations created in this partition later get
-- an epoch above any that a message of this one may have carried, and a higher version. So one of the same
-- name, which counts from 1 again, never repeats an (epoch, sequence). The epoch of the partition stays, so
-- other destinations and the owner are not affected.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] waiting       reseq:{p07}:d:<dest>:waiting
--   [4] messages      reseq:{p07}:d:<dest>:messages
--   [5] attempts      reseq:{p07}:d:<dest>:attempts
--   [6] lanes         reseq:{p07}:d:<dest>:lanes
--   [7] in_progress   reseq:{p07}:d:<dest>:in-progress
--   [8] ready         reseq:{p07}:d:<dest>:ready
--   [9] active_builtin   reseq:{p07}:active:builtin
--   [10] active_worker   reseq:{p07}:active:worker
--   [11] releasable   reseq:{p07}:releasable
--   [12] halted       reseq:{p07}:d:<dest>:halted
--   [13] withdrawals       reseq:{p07}:d:<dest>:withdrawals
--   [14] unique       reseq:{p07}:d:<dest>:idempotency-keys
--   [15] dead         reseq:{p07}:d:<dest>:dead-letters
--   [16] letters      reseq:{p07}:d:<dest>:dead-letter-messages
--   [17] log          reseq:{p07}:d:<dest>:log
--   [18] log_order    reseq:{p07}:d:<dest>:log:order
--   [19] bodies       reseq:{p07}:d:<dest>:bodies
--   [20] dead_at      reseq:{p07}:d:<dest>:dead-lettered-at
--   [21] withdrawn    reseq:{p07}:d:<dest>:withdrawn
--   [22] previous     reseq:{p07}:d:<dest>:previous
--   [23] ids          reseq:{p07}:d:<dest>:ids
--   [24] consumer_leases   reseq:{p07}:d:<dest>:consumer-leases
--   [25] lease_ends   reseq:{p07}:d:<dest>:consumer-lease-ends
--   [26] consumers    reseq:{p07}:consumers
--   [27] withdrawing  reseq:{p07}:withdrawing
-- ARGV:
--   [1] `known` of include/epoch.lua  [2] destination
-- Returns: the highest epoch that a message of it may have carried, or 0 if there was nothing to forget
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, expect

check_schema(KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 0 then return '0' end
local known = redis.call('HMGET', KEYS[2], 'deleted', 'born', 'version')
if not known[1] then return redis.error_reply('WRONG_STATE the destination is not being removed') end
expect('ZCARD', KEYS[9], KEYS[10], KEYS[11], KEYS[26], KEYS[27])
local epoch = current_epoch(KEYS[1], now_ms(), ARGV[1])
local removed = redis.call('HMGET', KEYS[1], 'removed_epoch', 'removed_version')
local carried = math.max(epoch, tonumber(known[2]) or 0)
local function at_least(noted, number) return text(math.max(tonumber(noted) or 0, tonumber(number) or 0)) end
redis.call('HSET', KEYS[1], 'removed_epoch', at_least(removed[1], carried),
  'removed_version', at_least(removed[2], known[3]))
for i = 2, 8 do redis.call('UNLINK', KEYS[i]) end
for i = 12, 25 do redis.call('UNLINK', KEYS[i]) end
-- Hints that were added after the removal began.
for i = 9, 11 do redis.call('ZREM', KEYS[i], ARGV[2]) end
for i = 26, 27 do redis.call('ZREM', KEYS[i], ARGV[2]) end
return text(carried)
