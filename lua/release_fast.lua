#!lua flags=allow-oom
-- release_fast: the fast path of release, for the usual case of a quiet destination: a lane with nothing special, whose
-- messages are all ready or have just been delivered. The owner holds no other messages of the lane. It does the same
-- with fewer commands and less Lua.
--
-- Returns: as release
-- Errors: NOT_FAST, NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it settles nothing twice and returns the same run: no call number is needed.
-- include: schema, clock, epoch, owner, out_of_line, counters

-- With more messages than this, the extra cost of release does not matter.
local FEW_MESSAGES = 32

local now = now_ms()
local epoch, takeover_wait = current_epoch(key_epoch, now, seen_epoch)
if epoch ~= owner_epoch + 0 then return redis.error_reply('STALE_EPOCH ' .. text(epoch)) end
if takeover_wait > 0 then return redis.error_reply('TAKEOVER_WAIT ' .. text(takeover_wait)) end
if not owns(key_owner, token) then return redis.error_reply('NOT_OWNER another owns the partition') end
local definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'withdrawals', 'halted_ready', 'settled',
  'ready', 'bytes', 'delivered', 'delivery')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
local is_plain = (definition[3] or '0') == '0' and (definition[4] or '0') == '0' and definition[9] ~= 'pull'
if not is_plain or redis.call('HLEN', key_attempts) > 0 then
  return redis.error_reply('NOT_FAST there are consumers, withdrawals, earlier attempts, or halted messages')
end

-- The sequences of the lane's messages, if there are few and all of them are ready.
local function all_ready()
  local sequences = redis.call('ZRANGE', key_ready, '0', FEW_MESSAGES)
  local count = #sequences
  if count > 0 and count <= FEW_MESSAGES and redis.call('ZCARD', key_in_progress) == count then return sequences end
end

-- The messages for the owner; nil if their records are too long or a body is stored out of line.
local function run_of(sequences)
  local run, room = {0, ''}, bytes_max + 0
  for i, record in ipairs(redis.call('HMGET', key_messages, unpack(sequences))) do
    if not record or bytes_out_of_line(record) > 0 then return nil end
    room = room - #record
    run[2 * i + 1], run[2 * i + 2] = sequences[i], record
  end
  if #run == 2 * #sequences + 2 and room > 0 then return run end
end

-- Adds the entries of the messages to the log. Returns how many entries are too many; nil if it added none.
local function add_to_log(sequences)
  local entries = {}
  for i, one in ipairs(log) do
    if one.sequence ~= sequences[i] then return nil end
    entries[2 * i - 1], entries[2 * i] = one.sequence, one.entry
  end
  local excess = redis.call('LLEN', key_log_order) + #sequences - log_max
  -- Bodies may be kept for the entries that leave the log.
  if excess > 0 and (excess > FEW_MESSAGES or redis.call('HLEN', key_bodies) > 0) then return nil end
  redis.call('RPUSH', key_log_order, unpack(sequences))
  redis.call('HSET', key_log, unpack(entries))
  return excess
end

-- Settles all messages of the lane. True if it did.
local function settle(sequences)
  local has_log = log_max ~= '0'
  local excess = has_log and add_to_log(sequences) or not has_log and 0
  if not excess then return false end
  redis.call('HDEL', key_messages, unpack(sequences))
  if excess > 0 then redis.call('HDEL', key_log, unpack(redis.call('LPOP', key_log_order, excess))) end
  redis.call('DEL', key_ready, key_in_progress)
  redis.call('ZREM', key_releasable, destination)
  local count = #sequences
  redis.call('HSET', key_destination, 'settled', counted(definition[5], count), 'ready', counted(definition[6], -count),
    'bytes', counted(definition[7], -settled_bytes), 'delivered', counted(definition[8], count))
  return true
end

local sequences, settles = all_ready(), settled_upto ~= '0'
if sequences and settles then
  local is_logged = log_max ~= '0' and #log == #sequences or log_max == '0' and redis.call('LLEN', key_log_order) == 0
  if settled_upto + 0 >= sequences[#sequences] + 0 and is_logged and settle(sequences) then return {{}, {0, ''}} end
elseif sequences and #sequences <= most + 0 and (redis.call('ZSCORE', key_releasable, destination) or 0) - now <= 0 then
  local run = run_of(sequences)
  if run then return {{}, run} end
end
return redis.error_reply('NOT_FAST the lane, its head or its log is not as usual')
