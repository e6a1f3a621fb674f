-- The fast path of claim, for the usual case of a quiet destination: one waiting, ordinary message. It does the same
-- as claim with fewer commands and less Lua. If it cannot, it changes nothing and returns nil; then the rest of claim
-- runs.

-- Leases the only waiting message, until `deadline`. Returns its sequence and record.
local function claim_fast(destination, waiting, messages, attempts, leases, active, deadline, secret, room)
  local sequences = redis.call('LRANGE', waiting, '0', '1')
  local sequence = sequences[1]
  if not sequence or sequences[2] or redis.call('HLEN', attempts) > 0 then return nil end
  local record = redis.call('HGET', messages, sequence)
  if not record or #record > room or bytes_out_of_line(record) > 0 then return nil end
  local lease = destination .. '/' .. sequence .. '/' .. secret
  redis.call('ZADD', leases, deadline, lease)
  redis.call('ZREM', active, destination)
  redis.call('LPOP', waiting)
  return sequence, record
end
