#!lua flags=allow-oom
-- repair_counters: corrects the counters of a destination if they have not changed while its messages were counted.
-- Also adds missing hints of the whole destination.
--
-- Returns: {'ok', or 'busy' if the counters have changed; a list with 3 values per finding: kind, name, 1 if it was
--   repaired}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, wake, waiting

check_schema(key_epoch)
local definition = redis.call('HMGET', key_destination, 'version', 'deleted')
if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
for _, counter in ipairs(counters) do
  local value = redis.call('HGET', key_destination, counter.name)
  if (tonumber(value) or 0) ~= tonumber(counter.before) then return {'busy', {}} end
end

local findings, may_repair = {}, repairs == '1'
local function find(kind, name)
  local at = #findings
  findings[at + 1], findings[at + 2], findings[at + 3] = kind, name, may_repair and 1 or 0
  return may_repair
end
local function set(name, counted)
  local value = tonumber(redis.call('HGET', key_destination, name)) or 0
  if value ~= counted and find('counter', name) then redis.call('HSET', key_destination, name, text(counted)) end
end
local function check_hint(key, is_needed, channel)
  if is_needed and not redis.call('ZSCORE', key, destination) and find('hint', destination) then
    redis.call('ZADD', key, '0', destination)
    wake(channel, destination)
  end
end

for _, counter in ipairs(counters) do set(counter.name, tonumber(counter.counted)) end
set('withdrawals', redis.call('HLEN', key_withdrawals))
set('withdrawn', redis.call('SCARD', key_withdrawn))
-- The destination counts the messages that left by outcome. The outcome of lost messages is unknown.
local left = redis.call('HMGET', key_destination, 'settled', 'delivered', 'dropped', 'dead_lettered', 'cancelled')
for i = 1, 5 do left[i] = tonumber(left[i]) or 0 end
local unknown = left[1] - left[2] - left[3] - left[4] - left[5]
if unknown > 0 then set('dead_lettered', left[4] + unknown) end
if unknown < 0 then set('delivered', math.max(0, left[2] + unknown)) end
local place = {hash = key_destination, builtin = key_active_builtin, worker = key_active_worker}
-- A destination that rests (include/rate.lua) needs no entry.
local rests = redis.call('ZSCORE', key_delayed, destination .. '/rate')
check_hint(active_of(place), not rests and redis.call('EXISTS', key_waiting) == 1, key_wake_waiting)
check_hint(key_withdrawing, redis.call('EXISTS', key_withdrawals) == 1, key_wake_releasable)
return {'ok', findings}
