#!lua flags=allow-oom
-- init_epoch: writes the first epoch of a partition of a new deployment, before anything else uses the
-- deployment. No sender can own a partition yet, so releases need not wait. A pod that later finds no epoch
-- knows that it was forgotten.
--
-- KEYS:
--   [1] epoch   reseq:{p07}:epoch
-- ARGV:
--   [1] `known` of include/epoch.lua, with a lease of 0
-- Returns: 1, or 0 if there was an epoch already
-- Errors: NEWER_SCHEMA <schema>. Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch

if redis.call('HEXISTS', KEYS[1], 'epoch') == 1 then return 0 end
current_epoch(KEYS[1], now_ms(), ARGV[1])
return 1
