-- What the owner of the partition offers to consumers: the finished run of a lane. A hash by lane, and `offered`,
-- the lanes that may be leased, the longest offered first. An entry is MessagePack of {epoch, secret of the
-- lease or '', its deadline, how many messages at the front it covers, how many of these are accepted, refusal
-- of the next one or '', {sequences, in order}}. A refusal is {error as JSON, wait in ms or '', 1 if it is
-- permanent}.

-- The entry of a lane; nil if there is none. An unreadable one counts as none.
local function offer_of(offers, lane)
  local could_read, offer = pcall(cmsgpack.unpack, redis.call('HGET', offers, lane) or '')
  if could_read and type(offer) == 'table' and type(offer[7]) == 'table' and tonumber(offer[3])
    and tonumber(offer[4]) and tonumber(offer[5]) then return offer end
end

local function keep_offer(offers, lane, offer)
  redis.call('HSET', offers, lane, cmsgpack.pack(offer))
end

local function drop_offer(offers, offered, lane)
  redis.call('HDEL', offers, lane)
  redis.call('ZREM', offered, lane)
end

-- True while a consumer holds the lane.
local function is_offer_leased(offer, now) return offer[2] ~= '' and offer[3] > now end

-- Where a sequence is among those of an offer that are not accepted; nil if it is not there.
local function find_in(offer, sequence)
  for i = offer[5] + 1, #offer[7] do
    if offer[7][i] == sequence then return i end
  end
end

-- True if a consumer has accepted this message of an offer.
local function is_accepted(offer, sequence)
  for i = 1, offer[5] do
    if offer[7][i] == sequence then return true end
  end
end
