#!lua
-- complete_fast: the fast path of complete, for the usual case of a quiet destination: one ordinary message of a
-- destination that is one lane with parallel processing. It does the same as complete with fewer commands and less
-- Lua.
--
-- Returns: {}
-- Errors: NOT_FAST, NEWER_SCHEMA <schema>, STALE_SCHEMA <schema>
-- Sent again, it finds that the lease has ended: no call number is needed.
-- include: schema, clock, wake, out_of_line, hand_over

if IS_FULL then return redis.error_reply('NOT_FAST Redis has no memory left') end
local schema, epoch = check_schema(key_epoch)
if schema ~= record_schema then return redis.error_reply('STALE_SCHEMA ' .. schema) end
-- Read from the destination itself, because the caller may know an old definition.
local definition = redis.call('HMGET', key_destination, 'ordering', 'processing', 'ready', 'version', 'withdrawals',
  'deleted', 'delivery')
if definition[1] ~= 'destination' or definition[2] == 'serial' then
  return redis.error_reply('NOT_FAST the destination is not one parallel lane any more')
end

-- Makes the message ready, and its lane releasable if the message is the head. Returns whether the lane is releasable;
-- nil if it changed nothing.
local function store()
  if not redis.call('ZSCORE', key_leases, member) or redis.call('HLEN', key_attempts) > 0 then return nil end
  local head = redis.call('ZRANGE', key_in_progress, '0', '0')[1]
  if not head or head ~= sequence and tonumber(head) > tonumber(sequence) then return nil end
  if redis.call('ZADD', key_ready, sequence, sequence) ~= 1 then return nil end
  if head == sequence then redis.call('ZADD', key_releasable, '0', destination) end
  if record ~= '' then redis.call('HSET', key_messages, sequence, record) end
  redis.call('ZREM', key_leases, member)
  return head == sequence
end

local is_head = store()
if is_head == nil then return redis.error_reply('NOT_FAST the lease or the lane is not as usual') end
redis.call('HSET', key_destination, 'ready', text((tonumber(definition[3]) or 0) + 1))
if is_head and definition[4] and not definition[6] then
  wake_for_head(key_wake_releasable, destination, definition[4], definition[3], definition[5], definition[7], epoch,
    key_messages, sequence, record)
elseif is_head then
  wake(key_wake_releasable, destination)
end
return {}
