#!lua flags=allow-oom
-- release_fast: the fast path of release, for the usual case of a quiet destination: a lane with ordinary messages,
-- all of which are ready or have just been delivered. The owner holds no other messages of the lane. It does the same
-- as release with fewer commands and less Lua.
--
-- Returns: as release
-- Errors: NOT_FAST, NEWER_SCHEMA <schema>, STALE_EPOCH <epoch>, TAKEOVER_WAIT <milliseconds>, NOT_OWNER,
--   UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it settles nothing twice and returns the same run: no call number is needed.
-- include: schema, clock, epoch, owner, out_of_line, counters, release_fast

-- With more messages than this, the extra cost of release does not matter.
local FEW_MESSAGES = 32

local now = now_ms()
local refusal, definition = begin_release(key_epoch, key_owner, key_destination, now, seen_epoch, owner_epoch, token,
  version)
if refusal then return refusal end
if (definition[1] or '0') ~= '0' or redis.call('HLEN', key_attempts) > 0 then
  return redis.error_reply('NOT_FAST there are earlier attempts or halted messages')
end

-- Returns the sequences of the lane's messages if there are few and all of them are ready; otherwise nil.
local function all_ready()
  local sequences = redis.call('ZRANGE', key_ready, '0', FEW_MESSAGES)
  local count = #sequences
  if count > 0 and count <= FEW_MESSAGES and redis.call('ZCARD', key_in_progress) == count then return sequences end
end

-- Returns the messages for the owner; nil if their records are too long or a body is stored out of line.
local function run_of(sequences)
  local run, room = {0, ''}, bytes_max + 0
  for i, record in ipairs(redis.call('HMGET', key_messages, unpack(sequences))) do
    if not record or bytes_out_of_line(record) > 0 then return nil end
    room = room - #record
    run[2 * i + 1], run[2 * i + 2] = sequences[i], record
  end
  if #run == 2 * #sequences + 2 and room > 0 then return run end
end

-- Settles all messages of the lane. Returns false if it cannot.
local function settle(sequences)
  local excess = add_to_log(key_log, key_log_order, key_bodies, log, log_max, sequences, FEW_MESSAGES)
  if not excess then return false end
  forget_settled(key_destination, key_messages, key_log, key_log_order, definition, sequences, settled_bytes, excess)
  redis.call('DEL', key_ready, key_in_progress)
  redis.call('ZREM', key_releasable, destination)
  return true
end

local sequences, settles = all_ready(), settled_upto ~= '0'
if sequences and settles then
  if settled_upto + 0 >= sequences[#sequences] + 0 and settle(sequences) then return {{}, {0, ''}} end
elseif sequences and #sequences <= most + 0 and (redis.call('ZSCORE', key_releasable, destination) or 0) - now <= 0 then
  local run = run_of(sequences)
  if run then return {{}, run} end
end
return redis.error_reply('NOT_FAST the lane, its head or its log is not as usual')
