#!lua flags=allow-oom
-- init_epoch: writes the first epoch of a partition of a new deployment, before any other use of the deployment. No
-- sender can own a partition yet, so releases need no wait. If a pod later finds no epoch, it knows that Redis has
-- lost the epoch.
--
-- Returns: 1, or 0 if the partition had an epoch already
-- Errors: NEWER_SCHEMA <schema>. Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch

if redis.call('HEXISTS', key_epoch, 'epoch') == 1 then return 0 end
current_epoch(key_epoch, now_ms(), seen_epoch)
return 1
