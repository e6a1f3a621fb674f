-- The part of `release` for destinations with consumers. From each lane, the owner gets the messages that consumers
-- have accepted, the tombstones, and a head that no consumer accepted or that no consumer can get because it is
-- damaged. `lane` is as in runs.lua, with `entry` as in consumers.lua.

-- How many messages behind the accepted ones one call reads to find tombstones. The next call reads further ones.
local BEHIND_MAX = 32

-- Returns how many messages of a lane are pending, up to the last accepted message.
local function accepted_of(lane, ordering)
  if lane.entry.accepted == 0 then return 0 end
  if ordering == 'none' then return redis.call('ZSCORE', lane.in_progress, lane.key) and 1 or 0 end
  return pending_upto(lane, '-inf', text(lane.entry.accepted))
end

-- Reads the entry of a lane, and limits how much of the lane is read.
local function look_at_lease(lane, leases, ordering)
  lane.entry = read_lease(leases, lane.key)
  if lane.asks then lane.most = math.min(lane.most, accepted_of(lane, ordering) + BEHIND_MAX) end
end

-- Returns how many ready messages of an expired lease its consumer did not accept.
local function left_of(lane, ordering)
  local entry = lane.entry
  if ordering == 'none' then return entry.accepted == 0 and #lane.run or 0 end
  return redis.call('ZCOUNT', lane.ready, '(' .. text(entry.accepted), text(entry.leased))
end

-- True if a message is pending behind the messages that this call has read.
local function is_behind(lane, sequence)
  local last = lane.run[#lane.run] or '0'
  return tonumber(sequence) > tonumber(last) and redis.call('ZSCORE', lane.in_progress, sequence)
end

-- Ends the run of a lane behind the last message that the owner must handle.
local function end_for_owner(lane, epoch, now, ordering, messages)
  if not lane.asks or lane.has_no_room then return end
  local entry, run, n = lane.entry, lane.run, 0
  if entry.secret and entry.deadline > now + entry.lasts then entry.deadline = now + entry.lasts end
  while run[n + 1] and tonumber(run[n + 1]) <= entry.accepted do n = n + 1 end
  local record = ''
  while run[n + 1] do
    record = redis.call('HGET', messages, run[n + 1]) or ''
    if not is_tombstone(record) then break end
    n = n + 1
  end
  local next_one = run[n + 1]
  if next_one and entry.secret and not has_consumer(entry, now) then
    expire_lease(entry, epoch, left_of(lane, ordering), next_one)
  elseif entry.secret and not has_consumer(entry, now) then
    end_lease(entry)
  end
  -- A refused message may have been withdrawn since. If it is behind more accepted messages than this call has read,
  -- its refusal stays.
  local refused = entry.refusal and entry.refusal[1]
  if refused and refused ~= next_one and (next_one or not is_behind(lane, refused)) then entry.refusal = nil end
  if next_one and (entry.refusal or not entry.secret and not is_readable(record)) then n = n + 1 end
  lane.run = {unpack(run, 1, n)}
end

-- True if a lane that was settled may have messages for consumers now.
local function may_be_consumed(lane, now)
  return lane.entry and #lane.gone > 0 and not has_consumer(lane.entry, now) and not lane.entry.refusal
end

-- Stores the entry of a lane, and when the owner must look at the lane again.
local function keep_outcome(lane, ordering, leases, lease_ends)
  local entry = lane.entry
  local gone, is_settled = tonumber(lane.gone[#lane.gone]), accepted_of(lane, ordering) == 0
  if entry.most and gone and gone >= entry.suspects then entry.most, entry.suspects = nil, nil end
  -- During a lease, its consumer may repeat an accept.
  if is_settled and not entry.secret then entry.accepted = 0 end
  keep_lease(leases, lane.key, entry)
  if not is_settled or entry.refusal or #lane.run > 0 then
    redis.call('ZADD', lease_ends, '0', lane.key)
  elseif entry.secret then
    redis.call('ZADD', lease_ends, text(entry.deadline), lane.key)
  else
    redis.call('ZREM', lease_ends, lane.key)
  end
end
