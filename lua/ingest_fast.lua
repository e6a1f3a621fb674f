#!lua
-- ingest_fast: the fast path of ingest, for the usual case of a quiet destination: few arrivals of one lane that have
-- nothing special and wait for a processor. It does the same with fewer commands and less Lua. If a write fails, it
-- undoes the writes before it; then the caller runs ingest, which finds the key of the wrong type.
--
-- Returns: {first sequence}
-- Errors: NOT_FAST, STALE_CALL, LATE_CALL <ms since 1970>, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>,
--   STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, damage, wake, arrivals

local number = call_number + 0
local answered, known = begin_ingest(key_call, key_epoch, key_destination, number, seen_epoch, record_schema, version,
  message_epoch)
if answered then return answered end
local count, first = #records, known.last + 1
if count > backlog_max - known.pending then return redis.error_reply('NOT_FAST the backlog is full') end

local sequences, with_records, with_scores = numbered(first, records)

-- Stores the messages. Returns how many messages wait now; nil if it stored none.
local function store()
  if not try('HSET', key_messages, unpack(with_records)) then return nil end
  local length = try('RPUSH', key_waiting, unpack(sequences))
  if not length then
    redis.call('HDEL', key_messages, unpack(sequences))
    return nil
  end
  local has_lane = try('ZADD', key_in_progress, unpack(with_scores))
  if has_lane and (length > count or try('ZADD', key_active, '0', destination)) then return length end
  redis.call('LTRIM', key_waiting, 0, -1 - count)
  redis.call('HDEL', key_messages, unpack(sequences))
  if has_lane then redis.call('ZREM', key_in_progress, unpack(sequences)) end
end

local length = store()
if not length then return redis.error_reply('NOT_FAST a key has the wrong type') end
redis.call('HSET', key_destination, 'last', text(known.last + count), 'bytes',
  text(known.pending_bytes + accounted_bytes_sum))
if length == count then wake(key_wake_waiting, destination) end
return keep(key_call, number, {first})
