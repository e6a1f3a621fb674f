-- The fast path through release, for what quiet destinations do most: a lane of which all messages are ready, or
-- have just been delivered, and nothing special. It does the same with fewer commands and less Lua, or returns nil
-- without a change; then the whole transition runs.

-- Lanes with more messages take the full path.
local FEW_MESSAGES = 32

-- A counter after a change: for damaged messages counters are not exact, so they never go below 0.
local function counted(counter, change)
  local number = (tonumber(counter) or 0) + change
  return number <= 0 and '0' or text(number)
end

-- The sequences of a lane's messages, if there are few and all of them are ready.
local function all_ready(in_progress, ready)
  local sequences = redis.call('ZRANGE', ready, '0', FEW_MESSAGES)
  local count = #sequences
  if count > 0 and count <= FEW_MESSAGES and redis.call('ZCARD', in_progress) == count then return sequences end
end

-- Returns these messages to the owner: sequence and record in turn, if the records fit into `room` and no body is
-- stored apart.
local function hand_out_alone(messages, sequences, room)
  local run = {0, ''}
  for i, record in ipairs(redis.call('HMGET', messages, unpack(sequences))) do
    if not record or bytes_apart(record) > 0 then return nil end
    room = room - #record
    run[2 * i + 1], run[2 * i + 2] = sequences[i], record
  end
  if #run == 2 * #sequences + 2 and room > 0 then return run end
end

-- Settles all messages of a lane, with their entries in the log (if it is wanted): those are in ARGV, behind `base`.
-- True if it did.
local function settle_alone(destination, messages, releasable, log, order, bodies, in_progress, ready, sequences,
    base, log_max)
  local has_log, excess, is_logged = log_max > 0, 0, true
  if has_log then
    for i, sequence in ipairs(sequences) do
      if ARGV[base + 2 * i - 1] ~= sequence then return nil end
    end
    local length = try('RPUSH', order, unpack(sequences))
    if not length then return nil end
    excess = length - log_max
    -- Bodies may be kept for the entries that leave the log.
    local can_trim = excess <= 0 or excess <= FEW_MESSAGES and try('HLEN', bodies) == 0
    is_logged = can_trim and try('HSET', log, unpack(ARGV, base + 1, base + 2 * #sequences))
  end
  if not is_logged or not try('HDEL', messages, unpack(sequences)) then
    if has_log then redis.call('LTRIM', order, 0, -1 - #sequences) end
    if has_log and is_logged then redis.call('HDEL', log, unpack(sequences)) end
    return nil
  end
  if excess > 0 then redis.call('HDEL', log, unpack(redis.call('LPOP', order, excess))) end
  redis.call('DEL', ready, in_progress)
  redis.call('ZREM', releasable, destination)
  return true
end
