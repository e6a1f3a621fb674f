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
  if is_head then hinted = try('ZADD', releasable, 'LT', now_text(), destination) end
  if not hinted or record ~= '' and not try('HSET', messages, sequence, record) then
    redis.call('ZREM', ready, sequence)
    if hinted == 1 then redis.call('ZREM', releasable, destination) end
    return nil
  end
  redis.call('ZREM', leases, lease)
  return is_head
end

-- Longer records are not handed over: every sender gets each wake-up. Neither are more bytes than that in one call.
local HAND_OVER_SIZE_MAX = 2048
local HAND_OVERS_SIZE_MAX = 32768

-- The bytes that this call has handed over.
local handed_over = 0

-- A wake-up with the record of a head that may leave now, so that the owner need not ask for it
-- (src/store/hand_over.rs): '<destination>=<version>,<epoch>,<sequence>,<size of the record>:<record>'. Nil if the
-- record is long, or its body stored apart.
local function hand_over(destination, version, epoch, messages, sequence, record)
  if record == '' then record = try('HGET', messages, sequence) or '' end
  local size = #record
  if size == 0 or size > HAND_OVER_SIZE_MAX or bytes_apart(record) > 0 or not version or not epoch then return nil end
  if handed_over + size > HAND_OVERS_SIZE_MAX then return nil end
  handed_over = handed_over + size
  return destination .. '=' .. version .. ',' .. epoch .. ',' .. sequence .. ',' .. text(size) .. ':' .. record
end
