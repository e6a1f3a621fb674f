#!lua
-- ingest_ready_fast: like ingest_fast, for messages that need no processing.
--
-- Returns: {first sequence}
-- Errors: NOT_FAST, STALE_CALL, LATE_CALL <ms since 1970>, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>,
--   STALE_EPOCH <epoch>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, epoch, wake, out_of_line, hand_over, arrivals

local number = call_number + 0
local answered, progress = begin_ingest(key_call, key_epoch, key_destination, number, seen_epoch, record_schema,
  version, message_epoch)
if answered then return answered end
local count, first = #records, progress.last + 1
if count > backlog_max - progress.pending then return redis.error_reply('NOT_FAST the backlog is full') end

local before = redis.call('HMGET', key_destination, 'ready', 'withdrawals', 'delivery')
local sequences, with_records, with_scores = numbered(first, records)

-- True if the first of these messages is the head of its lane. Then the lane is releasable.
local has_head = redis.call('ZCARD', key_in_progress) == 0
redis.call('HSET', key_messages, unpack(with_records))
redis.call('ZADD', key_in_progress, unpack(with_scores))
redis.call('ZADD', key_ready, unpack(with_scores))
if has_head then redis.call('ZADD', key_releasable, '0', destination) end
redis.call('HSET', key_destination, 'last', text(progress.last + count), 'bytes',
  text(progress.pending_bytes + accounted_bytes_sum), 'ready', text((tonumber(before[1]) or 0) + count))
if has_head and count == 1 then
  wake_for_head(key_wake_releasable, destination, version, before[1], before[2], before[3], text(progress.epoch),
    key_messages, text(first), records[1])
elseif has_head then
  wake(key_wake_releasable, destination)
end
return keep(key_call, number, {first})
