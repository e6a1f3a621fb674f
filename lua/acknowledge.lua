#!lua flags=allow-oom
-- acknowledge: a consumer accepts messages, refuses one, extends its leases or returns its messages. An
-- acknowledgement that comes too late changes nothing. The script leaves a hint for the owner of the partition, which
-- then settles or retries the messages.
--
-- Returns: {deadline of the extended leases, in ms since 1970, 'ok' | 'settled' | 'stale_lease' per item}. 'accept'
--   and 'refuse' also accept the earlier messages of the lane; settled: the message was accepted before, or has left
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION
-- Sent again, it changes nothing more ('extend' counts from the later call): no call number is needed.
-- include: schema, clock, epoch, leases, head, consumers, wake

local now = now_ms()
local epoch = current_epoch(key_epoch, now, seen_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end

local lasts = tonumber(lease_ms) or 0
local is_changed = false

-- Stores when the owner must look at the lane and, if given, when consumers may look at it.
local function note(lane, owner_at, consumers_at)
  redis.call('ZADD', key_consumer_lease_ends, owner_at, lane)
  redis.call('ZADD', key_consumers, '0', destination)
  if consumers_at then may_leave(key_releasable, key_lanes, destination, ordering, lane, consumers_at) end
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

function apply.refuse(lane, entry, sequence, message)
  accept_upto(entry, sequence - 1)
  end_lease(entry)
  entry.refusal = {text(sequence), message.problem, message.wait_ms, tonumber(message.is_final)}
  note(lane, 0)
end

function apply.extend(lane, entry)
  entry.deadline, entry.lasts = now + lasts, lasts
  if redis.call('ZSCORE', key_consumer_lease_ends, lane) ~= '0' then
    redis.call('ZADD', key_consumer_lease_ends, text(entry.deadline), lane)
  end
  may_leave(key_releasable, key_lanes, destination, ordering, lane, text(entry.deadline))
end

function apply.requeue(lane, entry)
  end_lease(entry)
  note(lane, 0, text(entry.accepted))
end

local answer = {text(now + lasts)}
for i, message in ipairs(messages) do
  local lane, sequence = message.lane, message.sequence
  local entry = read_lease(key_consumer_leases, lane)
  local is_his = entry.secret == message.secret and entry.epoch == epoch and has_consumer(entry, now)
  if is_his and lease_covers(entry, sequence) then
    apply[verb](lane, entry, tonumber(sequence), message)
    keep_lease(key_consumer_leases, lane, entry)
    answer[i + 1] = 'ok'
  elseif tonumber(sequence) <= entry.accepted then
    answer[i + 1] = 'settled'
  else
    answer[i + 1] = why_gone(key_messages, sequence)
  end
end
if is_changed then wake(key_wake_releasable, destination) end
return answer
