-- The fast path through complete, for what quiet destinations do most: one message, which has nothing special. It
-- does the same with fewer commands and less Lua. If a write fails, it undoes those before it; then the whole
-- transition runs, and finds out which key has the wrong type.

-- Makes the message ready, and its lane releasable if it is the head. Returns nil if it did not; otherwise whether
-- the lane is releasable. `record` is '' for a message that leaves as it came.
local function complete_alone(destination, messages, attempts, leases, releasable, in_progress, ready, sequence,
    lease, record)
  if not redis.call('ZSCORE', leases, lease) or redis.call('HLEN', attempts) > 0 then return nil end
  local heads = try('ZRANGE', in_progress, '0', '0')
  local head = heads and heads[1]
  if not head or head ~= sequence and tonumber(head) > tonumber(sequence) then return nil end
  if try('ZADD', ready, sequence, sequence) ~= 1 then return nil end
  local is_head = head == sequence
  local hinted = 0
  if is_head then hinted = try('ZADD', releasable, '0', destination) end
  if not hinted or record ~= '' and not try('HSET', messages, sequence, record) then
    redis.call('ZREM', ready, sequence)
    if hinted == 1 then redis.call('ZREM', releasable, destination) end
    return nil
  end
  redis.call('ZREM', leases, lease)
  return is_head
end
