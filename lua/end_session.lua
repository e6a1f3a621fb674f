#!lua flags=allow-oom
-- end_session: ends a session of the console, notifies all pods, and removes the oldest entries beyond the maximum.
--
-- KEYS:
--   [1] ended   reseq:{index}:sessions:ended
-- ARGV:
--   [1] the id of the session  [2] the most entries  [3] how long a session may last, in ms: then its entry is not
--   needed  [4] the channel reseq:wake:definitions; not a key, because the keys of one script share a slot on a cluster
-- Returns: the id of the entry, which begins with the time of Redis in ms since 1970
-- Errors: none
-- Sent again, it adds the entry once more: nothing depends on how often it is there.
-- include: wake

local entry = redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[2], '*', 'session', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
wake_all(ARGV[4], ARGV[1])
return entry
