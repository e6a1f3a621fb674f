-- The first steps that ingest, ingest_fast and ingest_ready_fast share.

-- Returns the answer if the call was answered before or is refused. Otherwise returns nil and the state of the
-- destination: `now`, `epoch` (of the partition), `last` (the last sequence), `pending` (messages), `pending_bytes`,
-- `born`, `all_keys` (set if `previous` never forgot a key), `paused`.
local function begin_ingest(key_call, key_epoch, key_destination, number, seen_epoch, record_schema, version,
    message_epoch)
  local answered = replayed(key_call, number)
  -- Store the answer again, so that there is a write that replicas or the disk can confirm.
  if answered and not answered.err then return keep(key_call, number, answered) end
  if answered then return answered end
  local now = now_ms()
  local partition_epoch, _, schema = current_epoch(key_epoch, now, seen_epoch)
  if schema ~= record_schema then return redis.error_reply('STALE_SCHEMA ' .. schema) end
  local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'last', 'settled', 'born', 'bytes',
    'all_keys_known', 'paused')
  if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
  if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
  local born, last = tonumber(definition[5]) or 0, tonumber(definition[3]) or 0
  local epoch = math.max(partition_epoch, born)
  if epoch ~= message_epoch + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
  return nil, {
    now = now, epoch = partition_epoch, born = born, last = last, pending = last - (tonumber(definition[4]) or 0),
    pending_bytes = tonumber(definition[6]) or 0, all_keys = definition[7],
    paused = definition[8] or '',
  }
end

-- Numbers the records, beginning with `first`. Returns their sequences, and two lists of pairs to write: each
-- sequence with its record, and each sequence with itself as its score.
local function numbered(first, records)
  local sequences, with_records, with_scores = {}, {}, {}
  for i, record in ipairs(records) do
    local sequence = text(first + i - 1)
    with_records[2 * i - 1], with_records[2 * i] = sequence, record
    with_scores[2 * i - 1], with_scores[2 * i] = sequence, sequence
    sequences[i] = sequence
  end
  return sequences, with_records, with_scores
end
