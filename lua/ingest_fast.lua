#!lua
-- ingest_fast: the fast path of ingest, for the usual case of a quiet destination: a few ordinary arrivals of one
-- lane that need a processor. It does the same as ingest with fewer commands and less Lua.
--
-- Returns: {first sequence}, or {first sequence, the entry for leased arrivals as in lua/ingest.lua}
-- Errors: NOT_FAST, STALE_CALL, LATE_CALL <ms since 1970>, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>,
--   STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, wake, arrivals, on_arrival

local number = call_number + 0
local answered, progress = begin_ingest(key_call, key_epoch, key_destination, number, seen_epoch, record_schema,
  version, message_epoch)
if answered then return answered end
local count, first = #records, progress.last + 1
if count > backlog_max - progress.pending then return redis.error_reply('NOT_FAST the backlog is full') end

local sequences, with_records, with_scores = numbered(first, records)
local is_leased = may_lease(secret, progress.paused, key_waiting, 'destination')

redis.call('HSET', key_messages, unpack(with_records))
redis.call('ZADD', key_in_progress, unpack(with_scores))
redis.call('HSET', key_destination, 'last', text(progress.last + count), 'bytes',
  text(progress.pending_bytes + accounted_bytes_sum))
if is_leased then
  local leased = lease_on_arrival(key_leases, destination, secret, text(progress.now + lease_ms), sequences)
  return keep(key_call, number, {first, leased})
end
local length = redis.call('RPUSH', key_waiting, unpack(sequences))
if length == count then
  redis.call('ZADD', key_active, '0', destination)
  wake(key_wake_waiting, destination)
end
return keep(key_call, number, {first})
