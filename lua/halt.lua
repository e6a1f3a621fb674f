#!lua flags=allow-oom
-- halt: halts a lane's head because the receiver refused it permanently, or its attempts are used up. It
-- keeps its position and is not released; its lane waits for an operator.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] owner         reseq:{p07}:owner
--   [3] destination   reseq:{p07}:d:<dest>
--   [4] attempts      reseq:{p07}:d:<dest>:attempts
--   [5] halted        reseq:{p07}:d:<dest>:halted
--   [6] lanes         reseq:{p07}:d:<dest>:lanes
--   [7] messages      reseq:{p07}:d:<dest>:messages
--   [8] in_progress   reseq:{p07}:d:<dest>:in-progress[:<key>]
--   [9] ready         reseq:{p07}:d:<dest>:ready[:<key>]
--   [10] consumer_leases reseq:{p07}:d:<dest>:consumer-leases
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] 'destination', 'key' or 'none'
--   [4] `known` of include/epoch.lua  [5] lane's key  [6] sequence  [7] failed attempts, with this one
--   [8] error as JSON  [9] definition version
-- Returns: 1; 0 if it was halted before
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, NOT_OWNER, UNKNOWN_DESTINATION, STALE_DEFINITION,
--   WRONG_HEAD
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, expect, owner, attempts, head, consumers

local now, sequence = now_ms(), ARGV[6]
local epoch = current_epoch(KEYS[1], now, ARGV[4])
if text(epoch) ~= ARGV[2] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if not owns(KEYS[2], ARGV[1]) then return redis.error_reply('NOT_OWNER another owns the partition') end
-- A destination that was created again counts from 1: its head may have the same number.
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'delivery')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[9] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
if redis.call('ZSCORE', KEYS[5], sequence) then return 0 end
if not is_head(ARGV[3], KEYS[8], sequence) or not redis.call('ZSCORE', KEYS[9], sequence) then
  return redis.error_reply('WRONG_HEAD the message is not the head of its lane')
end
-- A repair may have halted a message that the owner holds, and an operator may have withdrawn it since.
if string.sub(redis.call('HGET', KEYS[7], sequence) or '', 1, 1) == 'T' then
  return redis.error_reply('WRONG_HEAD the message was withdrawn')
end

expect('HLEN', KEYS[3], KEYS[4], KEYS[10])
expect('ZCARD', KEYS[6])
local attempts = attempts_of(KEYS[4], sequence)
attempts[1], attempts[4] = tonumber(ARGV[7]), 'delivery'
note_error(attempts, now, ARGV[8])
keep_attempts(KEYS[4], sequence, attempts)
if known[3] == 'pull' then end_refusal(KEYS[10], ARGV[5]) end
redis.call('HINCRBY', KEYS[3], 'halted_ready', 1)
redis.call('ZADD', KEYS[5], text(now), sequence)
if ARGV[3] ~= 'destination' then redis.call('ZREM', KEYS[6], ARGV[5]) end
return 1
