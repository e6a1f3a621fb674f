#!lua flags=allow-oom
-- repair_counters: corrects the counters of a destination, if they have not changed while the messages were
-- counted.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] withdrawals        reseq:{p07}:d:<dest>:withdrawals
--   [4] withdrawn     reseq:{p07}:d:<dest>:withdrawn
-- ARGV:
--   [1] definition version  [2] '1' to repair, '' only to report; then 3 per counter: its name, its value
--   before the messages were counted, the actual count
-- Returns: {'ok', or 'busy' if they have changed; a list with 3 per finding: kind, name, 1 if it was repaired}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, findings

check_schema(KEYS[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end

local findings, repairs, names = {}, ARGV[2] == '1', {}
for i = 3, #ARGV, 3 do names[#names + 1] = ARGV[i] end
local values = redis.call('HMGET', KEYS[2], unpack(names))
for i, value in ipairs(values) do
  if (tonumber(value) or 0) ~= tonumber(ARGV[3 * i + 1]) then return {'busy', findings} end
end
local order_count, withdrawn_count = redis.call('HLEN', KEYS[3]), redis.call('SCARD', KEYS[4])

local function set(name, value, counted)
  if (tonumber(value) or 0) == counted then return end
  if note_finding(findings, 'counter', name, repairs) then
    redis.call('HSET', KEYS[2], name, text(counted))
  end
end

for i, value in ipairs(values) do set(names[i], value, tonumber(ARGV[3 * i + 2])) end
set('withdrawals', redis.call('HGET', KEYS[2], 'withdrawals'), order_count)
set('withdrawn', redis.call('HGET', KEYS[2], 'withdrawn'), withdrawn_count)
-- Messages that left are counted by outcome; the outcome of lost ones is unknown.
local left = redis.call('HMGET', KEYS[2], 'last', 'settled', 'delivered', 'dropped', 'dead_lettered', 'cancelled')
for i = 1, 6 do left[i] = tonumber(left[i]) or 0 end
local unknown = left[2] - left[3] - left[4] - left[5] - left[6]
if unknown > 0 then set('dead_lettered', left[5], left[5] + unknown) end
if unknown < 0 then set('delivered', left[3], math.max(0, left[3] + unknown)) end
return {'ok', findings}
