#!lua flags=allow-oom
-- postpone: delays a lane's head that the receiver refused. It keeps its position, and the owner at that time
-- tries it again when the wait is over.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] owner         reseq:{p07}:owner
--   [3] attempts      reseq:{p07}:d:<dest>:attempts
--   [4] releasable    reseq:{p07}:releasable
--   [5] lanes         reseq:{p07}:d:<dest>:lanes
--   [6] in_progress   reseq:{p07}:d:<dest>:in-progress[:<key>]
--   [7] destination   reseq:{p07}:d:<dest>
--   [8] consumer_leases reseq:{p07}:d:<dest>:consumer-leases
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] destination  [4] 'destination', 'key' or
--   'none'  [5] `known` of include/epoch.lua  [6] lane's key  [7] sequence  [8] failed attempts, including this one
--   [9] wait, ms  [10] error as JSON  [11] definition version
-- Returns: when the head may be released, in ms since 1970
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, NOT_OWNER, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD
-- Sent again, it waits again: no call number is needed.
-- include: schema, clock, epoch, expect, owner, attempts, head, consumers

local now = now_ms()
local epoch = current_epoch(KEYS[1], now, ARGV[5])
if text(epoch) ~= ARGV[2] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if not owns(KEYS[2], ARGV[1]) then return redis.error_reply('NOT_OWNER another owns the partition') end
-- A destination that was created again counts from 1: its head may have the same number.
local known = redis.call('HMGET', KEYS[7], 'version', 'deleted', 'delivery')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[11] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
if not is_head(ARGV[4], KEYS[6], ARGV[7]) then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane')
end

expect('HLEN', KEYS[3], KEYS[8])
expect('ZCARD', KEYS[4], KEYS[5])
local not_before = now + tonumber(ARGV[9])
local attempts, failed = attempts_of(KEYS[3], ARGV[7]), tonumber(ARGV[8])
if attempts[1] ~= failed then note_error(attempts, now, ARGV[10]) end
attempts[1] = failed
keep_attempts(KEYS[3], ARGV[7], attempts)
if known[3] == 'pull' then end_refusal(KEYS[8], ARGV[6]) end
may_leave(KEYS[4], KEYS[5], ARGV[3], ARGV[4], ARGV[6], text(not_before))
return text(not_before)
