#!lua flags=allow-oom
-- audit: adds an entry to the audit log, and removes the oldest entries beyond its maximum.
--
-- KEYS:
--   [1] audit   reseq:{index}:audit
-- ARGV:
--   [1] the entry (JSON)  [2] the most entries
-- Returns: the id of the entry, which begins with the time of Redis in ms since 1970
-- Errors: none
-- Sent again, it adds the entry once more: nothing depends on how often it is there.

return redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[2], '*', 'entry', ARGV[1])
