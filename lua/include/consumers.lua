-- The leases of consumers: a hash by lane. The sorted set `lease_ends` holds when the owner must look at a lane: when
-- its lease ends, or 0 if the owner must settle or decide something now. An entry is MessagePack of a table:
--   accepted    all messages up to this sequence are accepted; 0: none. The number never falls while the entry exists
--   secret, epoch, deadline, lasts, leased   the lease, if there is one: its consumer's secret, the epoch in which it
--               began, when it ends, how long it lasts, and the last sequence that it covers
--   is_shared   true if the same call also leased other lanes
--   refusal     {sequence, error as JSON ('': its lease expired), wait in ms or '', 1 if it is permanent}: no consumer
--               accepted the message behind the accepted ones, and the owner has not yet decided what happens to it
--   most, suspects   set after a lease expired: one of the messages up to the sequence `suspects` may have stopped its
--               consumer. Until all of them are accepted, a call leases only this lane, and at most `most` messages

-- Returns the entry of a lane; an unreadable entry counts as no entry.
local function read_lease(leases, lane)
  local could_read, entry = pcall(cmsgpack.unpack, redis.call('HGET', leases, lane) or '')
  if could_read and type(entry) == 'table' and tonumber(entry.accepted) then return entry end
  return {accepted = 0}
end

-- Stores an entry, or removes it if it is empty.
local function keep_lease(leases, lane, entry)
  if entry.secret or entry.refusal or entry.most or entry.accepted > 0 then
    redis.call('HSET', leases, lane, cmsgpack.pack(entry))
  else
    redis.call('HDEL', leases, lane)
  end
end

local function end_lease(entry)
  entry.secret, entry.epoch, entry.deadline, entry.lasts, entry.leased, entry.is_shared = nil, nil, nil, nil, nil, nil
end

-- True while a consumer holds the lane.
local function has_consumer(entry, now) return entry.secret and entry.deadline > now end

-- True if the lease covers this message.
local function lease_covers(entry, sequence)
  return entry.secret and tonumber(sequence) > entry.accepted and tonumber(sequence) <= entry.leased
end

-- Ends an expired lease. Its consumer had not accepted `left` messages, of which `first` is the first. If one message
-- was left, and the same call leased no other lane, the consumer failed at that message. Otherwise nobody knows which
-- message stopped the consumer, so later calls lease fewer messages together until it is known. If the lease is from
-- an earlier epoch, its expiry does not count, because the accepts of its consumer changed nothing.
local function expire_lease(entry, epoch, left, first)
  if entry.epoch == epoch and left > 0 then
    if left == 1 and not entry.is_shared then entry.refusal = {first, '', '', 0} end
    entry.most, entry.suspects = math.max(1, math.floor(left / 2)), entry.leased
  end
  end_lease(entry)
end

-- Accepts all messages up to a sequence. Once all suspects are accepted, the lane is leased without limit again.
local function accept_upto(entry, sequence)
  entry.accepted = math.max(entry.accepted, sequence)
  if entry.most and entry.accepted >= entry.suspects then entry.most, entry.suspects = nil, nil end
end

-- Removes the refusal of a lane, after the owner has decided what happens to the message.
local function end_refusal(leases, lane)
  local entry = read_lease(leases, lane)
  entry.refusal = nil
  keep_lease(leases, lane, entry)
end

local function is_tombstone(record) return string.sub(record, 1, 1) == 'T' end

-- True if the format of the record is known. Only the owner finds out whether the record's header can be read.
local function is_readable(record)
  local _, mark = string.find(record, '^B%d+;')
  local _, prefix = string.find(record, '^[PN]%d*;', (mark or 0) + 1)
  return string.find(record, KNOWN_FORMAT .. '%d+,%d+;', (prefix or mark or 0) + 1)
end
