-- The fast path through claim, for what quiet destinations do most: one message waits, and has nothing special.
-- It does the same with fewer commands and less Lua, or returns nil without a change; then the whole transition runs.

-- Leases the only waiting message, until `deadline`. Returns its sequence and record.
local function claim_fast(destination, waiting, messages, attempts, leases, active, deadline, secret, room)
  local sequences = redis.call('LRANGE', waiting, '0', '1')
  local sequence = sequences[1]
  if not sequence or sequences[2] or redis.call('HLEN', attempts) > 0 then return nil end
  local record = redis.call('HGET', messages, sequence)
  if not record or #record > room or bytes_apart(record) > 0 then return nil end
  local lease = destination .. '/' .. sequence .. '/' .. secret
  if not try('ZADD', leases, deadline, lease) then return nil end
  if not try('ZREM', active, destination) then
    redis.call('ZREM', leases, lease)
    return nil
  end
  redis.call('LPOP', waiting)
  return sequence, record
end
