-- The short way through complete, for what quiet destinations do most: one message, which has nothing special. It
-- does the same with fewer commands and less Lua. If a write fails, it undoes those before it; then the whole
-- transition runs, and finds out which key has the wrong type.

-- Makes the message ready, and its lane releasable if it is the head. Returns nil if it did not; otherwise whether
-- the lane is releasable. `record` is '' for a message that leaves as it came.
local function complete_alone(destination, messages, attempts, leases, releasable, in_progress, ready, sequence,
    lease, record, now)
  if not redis.call('ZSCORE', leases, lease) or redis.call('HLEN', attempts) > 0 then return nil end
  local heads = redis.pcall('ZRANGE', in_progress, '0', '0')
  local head = heads[1]
  if not head or tonumber(head) > tonumber(sequence) then return nil end
  if redis.pcall('ZADD', ready, sequence, sequence) ~= 1 then return nil end
  local is_head = head == sequence
  local hinted = is_head and redis.pcall('ZADD', releasable, 'LT', text(now), destination) or 0
  local is_stored = type(hinted) ~= 'table'
    and (record == '' or type(redis.pcall('HSET', messages, sequence, record)) ~= 'table')
  if not is_stored then
    redis.call('ZREM', ready, sequence)
    if hinted == 1 then redis.call('ZREM', releasable, destination) end
    return nil
  end
  redis.call('ZREM', leases, lease)
  return is_head
end
