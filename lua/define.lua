#!lua
-- define: creates a destination, or changes its definition. The partition's definition decides; the index of
-- all destinations is updated afterwards.
--
-- KEYS:
--   [1] epoch            reseq:{p07}:epoch
--   [2] destination      reseq:{p07}:d:<dest>
--   [3] waiting          reseq:{p07}:d:<dest>:waiting
--   [4] active_builtin   reseq:{p07}:active:builtin
--   [5] active_worker    reseq:{p07}:active:worker
--   [6] withdrawn        reseq:{p07}:d:<dest>:withdrawn
--   [7] previous         reseq:{p07}:d:<dest>:previous
--   [8] ids              reseq:{p07}:d:<dest>:ids
-- ARGV:
--   [1] destination  [2] definition (JSON)  [3] 'destination', 'key' or 'none'  [4] 'builtin' or 'worker'
--   [5] `known` of include/epoch.lua  [6] 'parallel' or 'serial'  [7] most failed attempts to process (0: no limit)
--   [8] most expired leases of one message (0: no limit)
--   [9] the version that this definition may replace; '0': none, the destination must not exist; '': any
--   [10] how many ids are remembered (0: none)  [11] the stored definition that means the same, because its secrets
--   are only encrypted in another way; '': none  [12] 'push', 'pull' or 'none'
-- Returns: {version, 1 if this changed anything, 1 if it was created, what is paused as in pause.lua, the
--   epoch in which it was created}
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE, BEING_REMOVED, WRONG_VERSION <version, 0: it does not exist>,
--   NO_MEMORY (for another destination)
-- Sent again, it changes nothing: no call number is needed.
-- include: schema, clock, epoch, expect

if IS_FULL and redis.call('HEXISTS', KEYS[2], 'version') == 0 then
  return redis.error_reply('NO_MEMORY Redis has no memory left for another destination')
end
local now = now_ms()
local _, _, _, birth = current_epoch(KEYS[1], now, ARGV[5])
local known = redis.call('HMGET', KEYS[2], 'version', 'definition', 'ordering', 'last', 'settled', 'deleted',
  'processing', 'paused', 'born', 'delivery')
if known[6] then return redis.error_reply('BEING_REMOVED the destination is being removed') end
if known[2] == ARGV[2] then return {known[1], 0, 0, known[8] or '', known[9] or '0'} end
-- The version stays: no pod has to know.
if known[2] and known[2] == ARGV[11] then
  redis.call('HSET', KEYS[2], 'definition', ARGV[2])
  return {known[1], 0, 0, known[8] or '', known[9] or '0'}
end
if ARGV[9] ~= '' and ARGV[9] ~= (known[1] or '0') then
  return redis.error_reply('WRONG_VERSION ' .. (known[1] or '0'))
end
local pending = (tonumber(known[4]) or 0) - (tonumber(known[5]) or 0)
if known[3] and known[3] ~= ARGV[3] and pending > 0 then
  return redis.error_reply('WRONG_STATE ordering cannot change while messages are pending')
end
if known[7] and known[7] ~= ARGV[6] and pending > 0 then
  return redis.error_reply('WRONG_STATE processing cannot change while messages are pending')
end
-- A consumer, or a receiver, may hold messages, which nobody else may get meanwhile.
if known[10] and known[10] ~= ARGV[12] and (known[10] == 'pull' or ARGV[12] == 'pull') and pending > 0 then
  return redis.error_reply('WRONG_STATE delivery.kind cannot change from or to pull while messages are pending')
end

expect('ZCARD', KEYS[4], KEYS[5])

-- A destination that was removed and created again must not reuse its old versions, whatever the clock says.
local born, before = known[9] or '0', tonumber(known[1])
if not before then
  born = text(birth)
  before = math.max(tonumber(redis.call('HGET', KEYS[1], 'removed_version')) or 0, birth)
end
local version = text(math.max(before + 1, now))
redis.call('HSET', KEYS[2], 'version', version, 'definition', ARGV[2], 'ordering', ARGV[3],
  'claimers', ARGV[4], 'processing', ARGV[6], 'attempts_max', ARGV[7], 'stalls_max', ARGV[8],
  'delivery', ARGV[12])
if not known[1] then redis.call('HSET', KEYS[2], 'born', born) end
if known[3] ~= ARGV[3] then
  -- The list can contain only withdrawn messages, and may become a key of another type. Nothing is known
  -- about the keys of earlier lanes; if there was never a message, all keys are known.
  redis.call('UNLINK', KEYS[3], KEYS[6], KEYS[7])
  redis.call('HDEL', KEYS[2], 'withdrawn', 'all_keys_known')
  if ARGV[3] == 'key' and not known[4] then redis.call('HSET', KEYS[2], 'all_keys_known', '1') end
end
if ARGV[10] == '0' then redis.call('UNLINK', KEYS[8]) end
local mine, other = KEYS[4], KEYS[5]
if ARGV[4] == 'worker' then mine, other = other, mine end
redis.call('ZREM', other, ARGV[1])
if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('ZADD', mine, '0', ARGV[1]) end
return {version, 1, known[1] and 0 or 1, known[8] or '', born}
