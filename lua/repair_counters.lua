#!lua flags=allow-oom
-- repair_counters: corrects the counters of a destination, if they have not changed while the messages were
-- counted.
--
-- Returns: {'ok', or 'busy' if they have changed; a list with 3 per finding: kind, name, 1 if it was repaired}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, repair_report

check_schema(key_epoch)
local known = redis.call('HMGET', key_destination, 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local findings, may_repair, names = {}, repairs == '1', {}
for i, counter in ipairs(counters) do names[i] = counter.name end
local values = redis.call('HMGET', key_destination, unpack(names))
for i, value in ipairs(values) do
  if (tonumber(value) or 0) ~= tonumber(counters[i].before) then return {'busy', findings} end
end
local order_count, withdrawn_count = redis.call('HLEN', key_withdrawals), redis.call('SCARD', key_withdrawn)

local function set(name, value, counted)
  if (tonumber(value) or 0) == counted then return end
  if note_finding(findings, 'counter', name, may_repair) then
    redis.call('HSET', key_destination, name, text(counted))
  end
end

for i, value in ipairs(values) do set(names[i], value, tonumber(counters[i].counted)) end
set('withdrawals', redis.call('HGET', key_destination, 'withdrawals'), order_count)
set('withdrawn', redis.call('HGET', key_destination, 'withdrawn'), withdrawn_count)
-- Messages that left are counted by outcome; the outcome of lost ones is unknown.
local left = redis.call('HMGET', key_destination, 'last', 'settled', 'delivered', 'dropped', 'dead_lettered',
  'cancelled')
for i = 1, 6 do left[i] = tonumber(left[i]) or 0 end
local unknown = left[2] - left[3] - left[4] - left[5] - left[6]
if unknown > 0 then set('dead_lettered', left[5], left[5] + unknown) end
if unknown < 0 then set('delivered', left[3], math.max(0, left[3] + unknown)) end
return {'ok', findings}
