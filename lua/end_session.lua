#!lua flags=allow-oom
-- end_session: ends a session of the console, notifies all pods, and removes the oldest entries beyond the maximum.
--
-- Returns: the id of the entry, which begins with the time of Redis in ms since 1970
-- Errors: none
-- Sent again, it adds the entry once more: nothing depends on how often it is there.
-- include: wake

local entry = redis.call('XADD', key_ended, 'MAXLEN', '=', most, '*', 'session', session)
redis.call('PEXPIRE', key_ended, session_ms_max)
wake_all(channel, session)
return entry
