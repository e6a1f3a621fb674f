#!lua flags=allow-oom
-- repair_keys: removes keys of a destination and of its partition that have the wrong type. Rebuilds a lane's
-- `in_progress` from the records in one step: with half of it, messages further back would leave first.
--
-- KEYS:
--   [1]  epoch             reseq:{p07}:epoch
--   [2]  destination       reseq:{p07}:d:<dest>
--   [3]  waiting           reseq:{p07}:d:<dest>:waiting
--   [4]  messages          reseq:{p07}:d:<dest>:messages
--   [5]  attempts          reseq:{p07}:d:<dest>:attempts
--   [6]  leases            reseq:{p07}:leases
--   [7]  delayed           reseq:{p07}:delayed
--   [8]  halted            reseq:{p07}:d:<dest>:halted
--   [9]  withdrawals            reseq:{p07}:d:<dest>:withdrawals
--   [10] dead              reseq:{p07}:d:<dest>:dead-letters
--   [11] letters           reseq:{p07}:d:<dest>:dead-letter-messages
--   [12] dead_at           reseq:{p07}:d:<dest>:dead-lettered-at
--   [13] bodies            reseq:{p07}:d:<dest>:bodies
--   [14] log               reseq:{p07}:d:<dest>:log
--   [15] releasable        reseq:{p07}:releasable
--   [16] lanes             reseq:{p07}:d:<dest>:lanes
--   [17] active_builtin    reseq:{p07}:active:builtin
--   [18] active_worker     reseq:{p07}:active:worker
--   [19] withdrawn         reseq:{p07}:d:<dest>:withdrawn
--   [20] previous          reseq:{p07}:d:<dest>:previous
--   [21] ids               reseq:{p07}:d:<dest>:ids
--   [22] consumer_leases   reseq:{p07}:d:<dest>:consumer-leases
--   [23] lease_ends        reseq:{p07}:d:<dest>:consumer-lease-ends
--   [24] consumers         reseq:{p07}:consumers
--   [25] withdrawing       reseq:{p07}:withdrawing
--   [26…] of a lane, or none: in_progress  reseq:{p07}:d:<dest>:in-progress[:<key>]
-- ARGV:
--   [1] definition version  [2] 'destination', 'key' or 'none'  [3] '1' to repair, '' only to report; then
--   all sequences of the lane
-- Returns: 3 per finding: kind, key, 1 if it was repaired
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, lists, findings

check_schema(KEYS[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local expected = {
  [ARGV[2] == 'none' and 'zset' or 'list'] = {KEYS[3]},
}
local function expect_types(kind, keys)
  expected[kind] = expected[kind] or {}
  for _, key in ipairs(keys) do table.insert(expected[kind], key) end
end
expect_types('hash', {KEYS[4], KEYS[5], KEYS[9], KEYS[11], KEYS[13], KEYS[14], KEYS[22]})
expect_types('set', {KEYS[19]})
expect_types('zset', {
  KEYS[6], KEYS[7], KEYS[8], KEYS[10], KEYS[12], KEYS[15], KEYS[16], KEYS[17], KEYS[18],
  KEYS[21], KEYS[23], KEYS[24], KEYS[25],
})
local findings, repairs = {}, ARGV[3] == '1'

-- True if a key had the wrong type and was removed.
local function is_removed(key, kind)
  local found = redis.call('TYPE', key)['ok']
  if found == kind or found == 'none' then return false end
  if not note_finding(findings, 'wrong_type', key, repairs) then return false end
  redis.call('UNLINK', key)
  return true
end

for _, kind in ipairs({'list', 'hash', 'set', 'zset'}) do
  for _, key in ipairs(expected[kind] or {}) do is_removed(key, kind) end
end
-- Without it nothing is known about the keys of earlier lanes.
if is_removed(KEYS[20], 'zset') then redis.call('HDEL', KEYS[2], 'all_keys_known') end
for i = 26, #KEYS do
  if is_removed(KEYS[i], 'zset') then
    for from = 4, #ARGV, 1000 do
      local scores = {n = 0}
      for at = from, math.min(from + 999, #ARGV) do add(scores, ARGV[at], ARGV[at]) end
      redis.call('ZADD', KEYS[i], unpack(scores))
    end
  end
end
return findings
