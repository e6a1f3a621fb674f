#!lua flags=allow-oom
-- offer: the owner offers the front of lanes to consumers, and learns what became of its offers. A lane that a
-- consumer holds stays with it: its offer only grows.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] owner         reseq:{p07}:owner
--   [3] destination   reseq:{p07}:d:<dest>
--   [4] offers        reseq:{p07}:d:<dest>:offers
--   [5] offered       reseq:{p07}:d:<dest>:offered
--   [6] wake_offered  reseq:{p07}:wake:offered
-- ARGV:
--   [1] owner token  [2] epoch that the owner knows  [3] definition version  [4] destination
--   [5] `known` of include/epoch.lua  [6] lease of a consumer, ms  [7] number of lanes; then 3 per lane: its key
--   (without ordering: the sequence), 'offer' | 'look' | 'recall', number of sequences; then the sequences
-- Returns: per lane one of {'offered'}; {'leased', ms until its deadline, how many are accepted}; {'accepted',
--   count}: the owner settles these, and may offer the rest again; {'refused', how many before are accepted,
--   error as JSON, ms until the next attempt or '', 1 if it is permanent}; {'expired', how many are accepted};
--   {'gone'}: there is no offer; {'wait', ms}: a consumer that Redis may have forgotten may still hold it
-- Errors: NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it offers the same again. An outcome whose answer is lost is lost, too: the messages are offered
-- again, as they are delivered again where the answer of a receiver is lost.
-- include: schema, clock, epoch, expect, owner, offers, wake

local now = now_ms()
local epoch, takeover_wait = current_epoch(KEYS[1], now, ARGV[5])
if text(epoch) ~= ARGV[2] then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if takeover_wait > 0 then return redis.error_reply('TAKEOVER_WAIT ' .. text(takeover_wait)) end
if not owns(KEYS[2], ARGV[1], now) then return redis.error_reply('NOT_OWNER another owns the partition') end
local known = redis.call('HMGET', KEYS[3], 'version', 'deleted', 'born', 'offers_epoch', 'offers_from_ms')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', KEYS[4])
expect('ZCARD', KEYS[5])

-- Redis may have forgotten leases together with the epoch before. They end within one lease. A destination that
-- was created in this epoch had none.
local from = tonumber(known[5]) or 0
if known[4] ~= ARGV[2] then
  from = (tonumber(known[3]) or 0) >= epoch and 0 or now + tonumber(ARGV[6])
  redis.call('HSET', KEYS[3], 'offers_epoch', ARGV[2], 'offers_from_ms', text(from))
end

-- The outcome of an offer that is over, which is then removed; nil if it is not.
local function outcome_of(lane, offer)
  local accepted, refusal = offer[5], offer[6]
  if type(refusal) == 'table' then
    drop_offer(KEYS[4], KEYS[5], lane)
    return {'refused', accepted, refusal[1], refusal[2], refusal[3]}
  end
  if accepted == #offer[7] then
    drop_offer(KEYS[4], KEYS[5], lane)
    return {'accepted', accepted}
  end
  if offer[2] ~= '' and offer[3] <= now then
    drop_offer(KEYS[4], KEYS[5], lane)
    return {'expired', accepted}
  end
end

-- What the owner learns of its offer.
local function look(lane, offer, is_recalled)
  if not offer then return {'gone'} end
  local outcome = outcome_of(lane, offer)
  if outcome then return outcome end
  if is_offer_leased(offer, now) then return {'leased', offer[3] - now, offer[5]} end
  if is_recalled then
    drop_offer(KEYS[4], KEYS[5], lane)
    return {'accepted', offer[5]}
  end
  return offer[5] > 0 and {'accepted', offer[5]} or {'offered'}
end

-- Makes a new offer of these sequences.
local has_new = false
local function start_offer(lane, sequences)
  keep_offer(KEYS[4], lane, {ARGV[2], '', 0, 0, 0, '', sequences})
  redis.call('ZADD', KEYS[5], 'NX', text(now), lane)
  has_new = true
  return {'offered'}
end

-- How many of these sequences consumers have accepted, though the owner has not settled them yet.
local function accepted_of(offer, sequences)
  local last, count = tonumber(offer[7][offer[5]]) or 0, 0
  while sequences[count + 1] and tonumber(sequences[count + 1]) <= last do count = count + 1 end
  return count
end

local function put(lane, sequences)
  local offer = offer_of(KEYS[4], lane)
  if offer and offer[1] ~= ARGV[2] then
    if is_offer_leased(offer, now) then return {'wait', offer[3] - now} end
    drop_offer(KEYS[4], KEYS[5], lane)
    offer = nil
  end
  if from > now then return {'wait', from - now} end
  if not offer then return start_offer(lane, sequences) end
  local accepted = accepted_of(offer, sequences)
  local at = find_in(offer, sequences[accepted + 1])
  -- Anything but the continuation of what was offered: the lane has changed meanwhile.
  if accepted == 0 and at ~= offer[5] + 1 then return start_offer(lane, sequences) end
  local outcome = outcome_of(lane, offer)
  if outcome then
    outcome[2] = accepted
    return outcome
  end
  if accepted > 0 then return {'accepted', accepted} end
  if not is_offer_leased(offer, now) then return start_offer(lane, sequences) end
  offer[4], offer[5] = math.min(offer[4] - offer[5], #sequences), 0
  offer[7] = sequences
  keep_offer(KEYS[4], lane, offer)
  return {'leased', offer[3] - now, 0}
end

local answers, count = {}, tonumber(ARGV[7])
local at = 8 + 3 * count
for i = 1, count do
  local lane, what, length = ARGV[5 + 3 * i], ARGV[6 + 3 * i], tonumber(ARGV[7 + 3 * i])
  local sequences = {unpack(ARGV, at, at + length - 1)}
  at = at + length
  if what == 'offer' then
    answers[i] = put(lane, sequences)
  else
    answers[i] = look(lane, offer_of(KEYS[4], lane), what == 'recall')
  end
end
if has_new then wake(KEYS[6], ARGV[4]) end
return answers
