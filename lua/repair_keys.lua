#!lua flags=allow-oom
-- repair_keys: removes keys of a destination and of its partition that have the wrong type. Rebuilds a lane's
-- `in_progress` from the records in one step: with only half of it, messages further back would leave first.
--
-- Returns: 3 per finding: kind, key, 1 if it was repaired
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, lists, repair_report

check_schema(key_epoch)
local known = redis.call('HMGET', key_destination, 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local expected = {
  [ordering == 'none' and 'zset' or 'list'] = {key_waiting},
}
local function expect_types(kind, keys)
  expected[kind] = expected[kind] or {}
  for _, key in ipairs(keys) do table.insert(expected[kind], key) end
end
expect_types('hash', {
  key_messages, key_attempts, key_withdrawals, key_dead_letter_messages, key_bodies, key_log, key_consumer_leases,
})
expect_types('set', {key_withdrawn})
expect_types('zset', {
  key_leases, key_delayed, key_halted, key_dead_letters, key_dead_lettered_at, key_releasable, key_lanes,
  key_active_builtin, key_active_worker,
  key_ids, key_consumer_lease_ends, key_consumers, key_withdrawing,
})
local findings, may_repair = {}, repairs == '1'

-- True if a key had the wrong type and was removed.
local function is_removed(key, kind)
  local found = redis.call('TYPE', key)['ok']
  if found == kind or found == 'none' then return false end
  if not note_finding(findings, 'wrong_type', key, may_repair) then return false end
  redis.call('UNLINK', key)
  return true
end

for _, kind in ipairs({'list', 'hash', 'set', 'zset'}) do
  for _, key in ipairs(expected[kind] or {}) do is_removed(key, kind) end
end
-- Without `previous`, nothing is known about the keys of earlier lanes.
if is_removed(key_previous, 'zset') then redis.call('HDEL', key_destination, 'all_keys_known') end
-- The key that halts the destination may be another one (include/types.lua). If one still has the wrong type, the next
-- call halts it again. Without `owner` and `epoch`, an owner that Redis has forgotten could still deliver.
local kind, wrong = string.match(redis.call('HGET', key_destination, 'wrong_type') or '', '^(%a+) (.*)$')
local noun = string.match(wrong or '', '}:(.*)$')
if noun and noun ~= 'owner' and noun ~= 'epoch' and not string.find(noun, ':in-progress', 1, true) then
  is_removed(wrong, kind)
end
if may_repair then redis.call('HDEL', key_destination, 'wrong_type') end
for _, in_progress in ipairs(lanes) do
  if is_removed(in_progress, 'zset') then
    for from = 1, #sequences, 1000 do
      local scores = {n = 0}
      for at = from, math.min(from + 999, #sequences) do add(scores, sequences[at], sequences[at]) end
      redis.call('ZADD', in_progress, unpack(scores))
    end
  end
end
return findings
