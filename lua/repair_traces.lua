#!lua flags=allow-oom
-- repair_traces: removes traces of messages that are gone: leases, list entries of missing dead letters (or
-- adds missing list entries), and bodies.
--
-- KEYS:
--   [1] epoch         reseq:{p07}:epoch
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] messages      reseq:{p07}:d:<dest>:messages
--   [4] leases        reseq:{p07}:leases
--   [5] dead          reseq:{p07}:d:<dest>:dead-letters
--   [6] letters       reseq:{p07}:d:<dest>:dead-letter-messages
--   [7] dead_at       reseq:{p07}:d:<dest>:dead-lettered-at
--   [8] bodies        reseq:{p07}:d:<dest>:bodies
--   [9] log           reseq:{p07}:d:<dest>:log
-- ARGV:
--   [1] definition version  [2] '1' to repair, '' only to report  [3] what to compare; then
--   'leases': members of leases of messages without a record
--   'letters': sequences of dead letters
--   'bodies': the cursor from which to continue among the bodies
-- Returns: {cursor, or '0'; a list with 3 per finding: kind, what, 1 if it was repaired}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- Sent again, it finds nothing more to repair: no call number is needed.
-- include: schema, clock, expect, bodies, unnamed, findings

check_schema(KEYS[1])
local known = redis.call('HMGET', KEYS[2], 'version', 'deleted')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if known[1] ~= ARGV[1] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
expect('HLEN', KEYS[3], KEYS[6], KEYS[8], KEYS[9])
expect('ZCARD', KEYS[4], KEYS[5], KEYS[7])

local findings, repairs, now = {}, ARGV[2] == '1', now_ms()
local function find(kind, what) return note_finding(findings, kind, what, repairs) end

local function check_lease(member)
  local sequence = string.match(member, '/(%d+)/')
  if redis.call('ZSCORE', KEYS[4], member) and redis.call('HEXISTS', KEYS[3], sequence) == 0 then
    if find('left_over', sequence) then redis.call('ZREM', KEYS[4], member) end
  end
end

local function check_letter(sequence)
  local letter = redis.call('HGET', KEYS[6], sequence)
  local at = redis.call('ZSCORE', KEYS[7], sequence)
  local is_listed = redis.call('ZSCORE', KEYS[5], sequence)
  if letter and not (is_listed and at) and find('dead_letter', sequence) then
    local when = string.match(letter, '^(%d+) ') or text(now)
    redis.call('ZADD', KEYS[5], sequence, sequence)
    if not at then redis.call('ZADD', KEYS[7], when, sequence) end
  elseif not letter and (is_listed or at) and find('dead_letter', sequence) then
    redis.call('ZREM', KEYS[5], sequence)
    redis.call('ZREM', KEYS[7], sequence)
    remove_unnamed_bodies(KEYS[3], KEYS[6], KEYS[9], KEYS[8], sequence)
  end
end

local function check_body(field)
  local sequence, of_input = string.match(field, '^(%d+)(i?)$')
  local record = sequence and redis.call('HGET', KEYS[3], sequence)
  local mark = record and string.sub(record, 1, 1)
  -- A short body is in its record.
  local is_unnamed = not record or of_input == '' and mark ~= 'B' and mark ~= 'T'
  if is_unnamed and not (sequence and has_left_body(KEYS[6], KEYS[9], sequence)) and find('body', field) then
    redis.call('HDEL', KEYS[8], field)
  end
end

if ARGV[3] == 'bodies' then
  -- Only newer Redis versions can return fields without values.
  local page = redis.pcall('HSCAN', KEYS[8], ARGV[4], 'COUNT', '500', 'NOVALUES')
  local step = 1
  if page.err then
    page, step = redis.call('HSCAN', KEYS[8], ARGV[4], 'COUNT', '8'), 2
  end
  for i = 1, #page[2], step do check_body(page[2][i]) end
  return {page[1], findings}
end
local check = ARGV[3] == 'leases' and check_lease or check_letter
for i = 4, #ARGV do check(ARGV[i]) end
return {'0', findings}
