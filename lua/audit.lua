#!lua flags=allow-oom
-- audit: adds an entry to the audit log, and removes the oldest entries beyond its maximum.
--
-- Returns: the id of the entry, which begins with the time of Redis in ms since 1970
-- Errors: none
-- Sent again, it adds the entry once more, which does no harm: nothing counts the entries.

return redis.call('XADD', key_audit, 'MAXLEN', '=', most, '*', 'entry', entry)
