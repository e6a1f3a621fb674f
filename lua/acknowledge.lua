#!lua flags=allow-oom
-- acknowledge: a consumer accepts messages, refuses one, extends its leases or gives them back. What comes too late
-- changes nothing. The owner of the partition learns of it, and settles or retries.
--
-- KEYS:
--   [1] epoch            reseq:{p07}:epoch
--   [2] destination      reseq:{p07}:d:<dest>
--   [3] offers           reseq:{p07}:d:<dest>:offers
--   [4] offered          reseq:{p07}:d:<dest>:offered
--   [5] messages         reseq:{p07}:d:<dest>:messages
--   [6] wake_releasable  reseq:{p07}:wake:releasable
--   [7] wake_offered     reseq:{p07}:wake:offered
-- ARGV:
--   [1] `known` of include/epoch.lua  [2] destination  [3] 'accept' | 'refuse' | 'extend' | 'requeue'  [4] 'extend':
--   lease from now on, ms  [5] number of items; then 3 per item: lane's key (without ordering: the sequence),
--   secret, sequence; then for 'refuse' 3 per item: error as JSON, ms until the next attempt or '', 1 if it
--   is permanent
-- Returns: {deadline of the extended leases, in ms since 1970, 'ok' | 'settled' | 'stale_lease' per item}.
--   'accept' and 'refuse' accept the messages before this one in its lane, too; settled: it was accepted before,
--   or has left
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it changes nothing more ('extend' counts from the later call): no call number is needed.
-- include: schema, clock, epoch, expect, leases, offers, wake

local now = now_ms()
local epoch = current_epoch(KEYS[1], now, ARGV[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
expect('HLEN', KEYS[3], KEYS[5])
expect('ZCARD', KEYS[4])

local what, count = ARGV[3], tonumber(ARGV[5])
local deadline = now + (tonumber(ARGV[4]) or 0)
local has_ended, has_free = false, false

-- The lane has no holder any more. If messages are left, others may lease it, unless one was refused.
local function end_lease(lane, offer)
  offer[2], offer[3], offer[4] = '', 0, offer[5]
  has_ended = true
  if type(offer[6]) ~= 'table' and offer[5] < #offer[7] then
    redis.call('ZADD', KEYS[4], text(now), lane)
    has_free = true
  end
end

-- The transitions of an offer. `at` is the index of the message.
local apply = {}

function apply.accept(lane, offer, at)
  offer[5], has_ended = at, true
  if at == offer[4] then end_lease(lane, offer) end
end

function apply.refuse(lane, offer, at, i)
  local base = 6 + 3 * count + 3 * (i - 1)
  offer[5], offer[6] = at - 1, {ARGV[base], ARGV[base + 1], tonumber(ARGV[base + 2])}
  end_lease(lane, offer)
end

function apply.extend(_, offer) offer[3] = deadline end

apply.requeue = end_lease

local answer = {text(deadline)}
for i = 1, count do
  local base = 3 + 3 * i
  local lane, secret, sequence = ARGV[base], ARGV[base + 1], ARGV[base + 2]
  local offer = offer_of(KEYS[3], lane)
  local is_held = offer and offer[1] == text(epoch) and offer[2] == secret and is_offer_leased(offer, now)
  local at = is_held and find_in(offer, sequence)
  if at and at <= offer[4] then
    apply[what](lane, offer, at, i)
    keep_offer(KEYS[3], lane, offer)
    answer[i + 1] = 'ok'
  elseif offer and offer[5] > 0 and tonumber(sequence) <= tonumber(offer[7][offer[5]]) then
    answer[i + 1] = 'settled'
  else
    answer[i + 1] = why_gone(KEYS[5], sequence)
  end
end
if has_ended then wake(KEYS[6], ARGV[2]) end
if has_free then wake(KEYS[7], ARGV[2]) end
return answer
