#!lua flags=allow-oom
-- acknowledge: a consumer accepts messages, refuses one, extends its leases or gives them back. What comes too late
-- changes nothing. The owner of the partition learns of it, and settles or retries.
--
-- KEYS:
--   [1] epoch            reseq:{p07}:epoch
--   [2] destination      reseq:{p07}:d:<dest>
--   [3] leases           reseq:{p07}:d:<dest>:consumer-leases
--   [4] lease_ends       reseq:{p07}:d:<dest>:consumer-lease-ends
--   [5] messages         reseq:{p07}:d:<dest>:messages
--   [6] releasable       reseq:{p07}:releasable
--   [7] lanes            reseq:{p07}:d:<dest>:lanes
--   [8] wake_releasable  reseq:{p07}:wake:releasable
--   [9] consumers        reseq:{p07}:consumers
-- ARGV:
--   [1] `known` of include/epoch.lua  [2] destination  [3] 'destination', 'key' or 'none'
--   [4] 'accept' | 'refuse' | 'extend' | 'requeue'  [5] 'extend': lease from now on, ms  [6] number of items; then 3 per
--   item: lane's key (without ordering: the sequence), secret, sequence; then for 'refuse' 3 per item: error as JSON,
--   ms until the next attempt or '', 1 if it is permanent
-- Returns: {deadline of the extended leases, in ms since 1970, 'ok' | 'settled' | 'stale_lease' per item}.
--   'accept' and 'refuse' accept the messages before this one in its lane, too; settled: it was accepted before,
--   or has left
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it changes nothing more ('extend' counts from the later call): no call number is needed.
-- include: schema, clock, epoch, expect, leases, head, consumers, wake

local now = now_ms()
local epoch = current_epoch(KEYS[1], now, ARGV[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
expect('HLEN', KEYS[3], KEYS[5])
expect('ZCARD', KEYS[4], KEYS[6], KEYS[7], KEYS[9])

local what, count = ARGV[4], tonumber(ARGV[6])
local lasts = tonumber(ARGV[5]) or 0
local is_changed = false

-- What the owner must see, and when consumers may look at the lane.
local function note(lane, owner_at, consumers_at)
  redis.call('ZADD', KEYS[4], owner_at, lane)
  redis.call('ZADD', KEYS[9], '0', ARGV[2])
  if consumers_at then may_leave(KEYS[6], KEYS[7], ARGV[2], ARGV[3], lane, consumers_at) end
  is_changed = is_changed or owner_at == 0
end

-- The transitions of a lease.
local apply = {}

function apply.accept(lane, entry, sequence)
  accept_upto(entry, sequence)
  local is_over = entry.accepted >= entry.leased
  if is_over then end_lease(entry) end
  note(lane, 0, is_over and text(entry.accepted))
end

function apply.refuse(lane, entry, sequence, i)
  local base = 7 + 3 * count + 3 * (i - 1)
  accept_upto(entry, sequence - 1)
  end_lease(entry)
  entry.refusal = {text(sequence), ARGV[base], ARGV[base + 1], tonumber(ARGV[base + 2])}
  note(lane, 0)
end

function apply.extend(lane, entry)
  entry.deadline, entry.lasts = now + lasts, lasts
  if redis.call('ZSCORE', KEYS[4], lane) ~= '0' then redis.call('ZADD', KEYS[4], text(entry.deadline), lane) end
  may_leave(KEYS[6], KEYS[7], ARGV[2], ARGV[3], lane, text(entry.deadline))
end

function apply.requeue(lane, entry)
  end_lease(entry)
  note(lane, 0, text(entry.accepted))
end

local answer = {text(now + lasts)}
for i = 1, count do
  local base = 4 + 3 * i
  local lane, secret, sequence = ARGV[base], ARGV[base + 1], ARGV[base + 2]
  local entry = read_lease(KEYS[3], lane)
  local is_his = entry.secret == secret and entry.epoch == epoch and has_consumer(entry, now)
  if is_his and lease_covers(entry, sequence) then
    apply[what](lane, entry, tonumber(sequence), i)
    keep_lease(KEYS[3], lane, entry)
    answer[i + 1] = 'ok'
  elseif tonumber(sequence) <= entry.accepted then
    answer[i + 1] = 'settled'
  else
    answer[i + 1] = why_gone(KEYS[5], sequence)
  end
end
if is_changed then wake(KEYS[8], ARGV[2]) end
return answer
