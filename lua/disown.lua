#!lua flags=allow-oom
-- disown: gives a partition back, so that another sender need not wait for the lease to run out.
--
-- KEYS:
--   [1] owner        reseq:{p07}:owner
--   [2] wake_owner   reseq:{p07}:wake:owner
--   [3] epoch        reseq:{p07}:epoch
-- ARGV:
--   [1] token
-- Returns: 1, or 0 if the token did not own it any more
-- Errors: NEWER_SCHEMA <schema>
-- Sent again it changes nothing: no call number is needed.
-- include: schema, wake

check_schema(KEYS[3])
local held = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) ')
if held ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
wake(KEYS[2], 'free')
return 1
