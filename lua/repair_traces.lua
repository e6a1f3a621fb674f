#!lua flags=allow-oom
-- repair_traces: removes traces of messages that are gone: leases, bodies, and list entries of dead letters whose
-- content is missing. Adds missing list entries of dead letters.
--
-- Returns: {cursor, or '0'; a list with 3 per finding: kind, what, 1 if it was repaired}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, expect, bodies, orphan_bodies, repair_report

check_schema(key_epoch)
local known = redis.call('HMGET', key_destination, 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', key_messages, key_dead_letter_messages, key_bodies, key_log)
expect('ZCARD', key_leases, key_dead_letters, key_dead_lettered_at)

local findings, may_repair, now = {}, repairs == '1', now_ms()
local function find(kind, which) return note_finding(findings, kind, which, may_repair) end

local function check_lease(member)
  local sequence = string.match(member, '/(%d+)/')
  if redis.call('ZSCORE', key_leases, member) and redis.call('HEXISTS', key_messages, sequence) == 0 then
    if find('left_over', sequence) then redis.call('ZREM', key_leases, member) end
  end
end

local function check_letter(sequence)
  local letter = redis.call('HGET', key_dead_letter_messages, sequence)
  local at = redis.call('ZSCORE', key_dead_lettered_at, sequence)
  local is_listed = redis.call('ZSCORE', key_dead_letters, sequence)
  if letter and not (is_listed and at) and find('dead_letter', sequence) then
    local when = string.match(letter, '^(%d+) ') or text(now)
    redis.call('ZADD', key_dead_letters, sequence, sequence)
    if not at then redis.call('ZADD', key_dead_lettered_at, when, sequence) end
  elseif not letter and (is_listed or at) and find('dead_letter', sequence) then
    redis.call('ZREM', key_dead_letters, sequence)
    redis.call('ZREM', key_dead_lettered_at, sequence)
    remove_unnamed_bodies(key_messages, key_dead_letter_messages, key_log, key_bodies, sequence)
  end
end

local function check_body(field)
  local sequence, of_input = string.match(field, '^(%d+)(i?)$')
  local record = sequence and redis.call('HGET', key_messages, sequence)
  local mark = record and string.sub(record, 1, 1)
  -- A short body is in its record.
  local is_unnamed = not record or of_input == '' and mark ~= 'B' and mark ~= 'T'
  local is_kept = sequence and has_left_body(key_dead_letter_messages, key_log, sequence)
  if is_unnamed and not is_kept and find('body', field) then
    redis.call('HDEL', key_bodies, field)
  end
end

if what == 'bodies' then
  -- Only newer Redis versions can return fields without values.
  local page = redis.pcall('HSCAN', key_bodies, traces[1], 'COUNT', '500', 'NOVALUES')
  local step = 1
  if page.err then
    page, step = redis.call('HSCAN', key_bodies, traces[1], 'COUNT', '8'), 2
  end
  for i = 1, #page[2], step do check_body(page[2][i]) end
  return {page[1], findings}
end
local check = what == 'leases' and check_lease or check_letter
for _, trace in ipairs(traces) do check(trace) end
return {'0', findings}
