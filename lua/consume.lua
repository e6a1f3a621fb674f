#!lua flags=allow-oom
-- consume: leases offered lanes to a consumer, the longest offered first, and returns their messages.
--
-- KEYS:
--   [1] call          reseq:{p07}:calls:<caller>
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] offers        reseq:{p07}:d:<dest>:offers
--   [4] offered       reseq:{p07}:d:<dest>:offered
--   [5] messages      reseq:{p07}:d:<dest>:messages
--   [6] attempts      reseq:{p07}:d:<dest>:attempts
--   [7] bodies        reseq:{p07}:d:<dest>:bodies
--   [8] epoch         reseq:{p07}:epoch
-- ARGV:
--   [1] call number  [2] `known` of include/epoch.lua  [3] definition version  [4] secret (the same for the whole
--   call)  [5] lease, ms  [6] most messages  [7] most bytes of records and bodies (at least one message is
--   returned)
-- Returns: {deadline in ms since 1970, then per message: lane's key (without ordering: the sequence), sequence,
--   record ('': missing), attempts or '', followed by the body ('': missing) if it is stored apart}
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, expect, apart, bodies, offers

-- The most lanes of one call.
local LANES_MAX = 256

local number = tonumber(ARGV[1])
local answered = replayed(KEYS[1], number)
if answered and answered.err then return answered end
local now = now_ms()
local epoch = current_epoch(KEYS[8], now, ARGV[2])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted', 'paused')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
expect('HLEN', KEYS[3], KEYS[5], KEYS[6], KEYS[7])
expect('ZCARD', KEYS[4])

-- Adds the leased messages of a lane to the answer.
local function add_messages(answer, wanted, lane, sequences)
  local records = redis.call('HMGET', KEYS[5], unpack(sequences))
  local attempts = redis.call('HMGET', KEYS[6], unpack(sequences))
  for i, sequence in ipairs(sequences) do
    local record, at = records[i] or '', #answer
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = lane, sequence, record, attempts[i] or ''
    if bytes_apart(record) > 0 then
      answer[at + 5] = ''
      wanted[#wanted + 1] = {answer, at + 5, sequence}
    end
  end
end

-- A repeated call: what is still leased under its secret.
if answered then
  local answer, wanted = {answered[1]}, {}
  for i = 2, #answered do
    local offer = offer_of(KEYS[3], answered[i])
    if offer and offer[2] == ARGV[4] and is_offer_leased(offer, now) and offer[4] > offer[5] then
      add_messages(answer, wanted, answered[i], {unpack(offer[7], offer[5] + 1, offer[4])})
    end
  end
  put_bodies(KEYS[7], wanted)
  return answer
end

if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
local deadline = now + tonumber(ARGV[5])
local call, answer, wanted = {text(deadline)}, {text(deadline)}, {}
if string.find(known[3] or '', 'delivery', 1, true) then return keep(KEYS[1], number, answer) end

-- How many of these messages to lease: all, or as many as fit.
local room, left = tonumber(ARGV[7]), tonumber(ARGV[6])
local function fitting(offer)
  local count = 0
  for i = offer[5] + 1, math.min(#offer[7], offer[5] + left) do
    local sequence = offer[7][i]
    local size = redis.call('HSTRLEN', KEYS[5], sequence) + redis.call('HSTRLEN', KEYS[7], sequence)
    if size > room and #answer > 1 then return count end
    if size > room and count > 0 then return count end
    room, count = room - size, count + 1
  end
  return count
end

local leased = {}
for _, lane in ipairs(redis.call('ZRANGE', KEYS[4], 0, LANES_MAX - 1)) do
  if left <= 0 or room <= 0 then break end
  local offer = offer_of(KEYS[3], lane)
  local is_free = offer and offer[1] == text(epoch) and offer[2] == '' and type(offer[6]) ~= 'table'
  local count = is_free and fitting(offer) or 0
  if count > 0 then
    left = left - count
    offer[2], offer[3], offer[4] = ARGV[4], deadline, offer[5] + count
    keep_offer(KEYS[3], lane, offer)
    leased[#leased + 1], call[#call + 1] = lane, lane
    add_messages(answer, wanted, lane, {unpack(offer[7], offer[5] + 1, offer[4])})
  elseif not is_free then
    -- Of another epoch, or damaged: its owner offers it again.
    leased[#leased + 1] = lane
  end
end
if #leased > 0 then redis.call('ZREM', KEYS[4], unpack(leased)) end
put_bodies(KEYS[7], wanted)
keep(KEYS[1], number, call)
return answer
