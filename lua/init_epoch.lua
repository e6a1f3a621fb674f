#!lua flags=allow-oom
-- init_epoch: writes the first epoch of a partition of a new deployment, before anything else uses the deployment. No
-- sender can own a partition yet, so releases need not wait. A pod that later finds no epoch knows that Redis has
-- forgotten it.
--
-- Returns: 1, or 0 if there was an epoch already
-- Errors: NEWER_SCHEMA <schema>. Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch

if redis.call('HEXISTS', key_epoch, 'epoch') == 1 then return 0 end
current_epoch(key_epoch, now_ms(), seen_epoch)
return 1
