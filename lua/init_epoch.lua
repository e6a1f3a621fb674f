#!lua flags=allow-oom
-- init_epoch: notes the first epoch of a partition of a new deployment, before anything else knows of
-- the deployment. Nobody can own anything yet, so releases need not wait. Whoever finds no epoch
-- noted afterwards knows that it was forgotten.
--
-- KEYS:
--   [1] epoch   reseq:{p07}:epoch
-- ARGV:
--   [1] known of the epoch, with no lease
-- Returns: 1, or 0 if an epoch was noted before
-- Errors: NEWER_SCHEMA <schema>. Sent again it changes nothing: no call number is needed.
-- include: schema, clock, epoch

if redis.call('HEXISTS', KEYS[1], 'epoch') == 1 then return 0 end
current_epoch(KEYS[1], now_ms(), ARGV[1])
return 1
