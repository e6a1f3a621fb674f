#!lua
-- claim: gives a processor waiting messages of one destination, under a lease.
--
-- KEYS:
--   [1] call          reseq:{p07}:calls:<caller>
--   [2] destination   reseq:{p07}:d:<dest>
--   [3] waiting       reseq:{p07}:d:<dest>:waiting
--   [4] messages      reseq:{p07}:d:<dest>:messages
--   [5] attempts      reseq:{p07}:d:<dest>:attempts
--   [6] leases        reseq:{p07}:leases
--   [7] active        reseq:{p07}:active:<builtin or worker>
--   [8] epoch         reseq:{p07}:epoch
--   [9] bodies        reseq:{p07}:d:<dest>:bodies
--   [10] withdrawn    reseq:{p07}:d:<dest>:withdrawn
--   [11] delayed      reseq:{p07}:delayed
--   [12] lanes        reseq:{p07}:d:<dest>:lanes
-- ARGV:
--   [1] call number  [2] destination  [3] definition version  [4] secret (the same for the whole call)
--   [5] lease, ms  [6] most messages  [7] most bytes of records (at least one record is returned)
--   [8] fewest messages (returns none if fewer wait; overrides [7])
--   [9] 'destination', 'key' or 'none'  [10] '1' if the process has no suspects (include/suspects.lua)
-- Returns: {deadline in ms since 1970, sequence, record, sequence, record …}; or, if any of the messages has
--   earlier attempts, {deadline, 'attempts', sequence, record, attempts or '' …}; a record ('': missing) whose
--   body is stored apart is followed by the body ('': missing); {deadline, 'again', …}: more may wait, although
--   there are fewer than [6]; {deadline, 'full', …}: Redis has no memory left, so that only heads of lanes are
--   claimed. Suspects come in an answer of their own, also if they are fewer than [8]
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, damage, apart, claim_alone

local number, destination, by_priority = ARGV[1] + 0, ARGV[2], ARGV[9] == 'none'
local least = ARGV[8] + 0

local answered = replayed(KEYS[1], number)
if answered and (answered.err or answered[2] == 'again' or answered[2] == 'full') then return answered end

local now = now_ms()
local most = ARGV[6] + 0
local deadline = text(now + ARGV[5])
local known
if not answered then
  check_schema(KEYS[8])
  known = redis.call('HMGET', KEYS[2], 'version', 'deleted', 'withdrawn', 'suspects', 'paused')
  if not known[1] or known[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
  if known[1] ~= ARGV[3] then return redis.error_reply('STALE_DEFINITION ' .. known[1]) end
  if not IS_FULL and not by_priority and not known[3] and least <= 1 and most >= 1 then
    local sequence, record =
      claim_alone(destination, KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], deadline, ARGV[4], ARGV[7] + 0)
    if sequence then
      keep(KEYS[1], number, {deadline, sequence})
      return {deadline, sequence, record}
    end
  end
end

-- The rest is for calls that cannot take the fast path.
-- include: expect, portions, withdrawn, bodies, attempts, suspects, reserve, heads

-- Destinations are served in turn: this one comes behind all others. A destination that was not served yet has 0.
local function to_end_of_active(active, destination)
  local last = redis.call('ZRANGE', active, '-1', '-1', 'WITHSCORES')[2]
  redis.call('ZADD', active, text((tonumber(last) or 0) + 1), destination)
end

local before_sequence, after_sequence = destination .. '/', '/' .. ARGV[4]
local function lease_of(sequence)
  return before_sequence .. sequence .. after_sequence
end

-- The answer to a repeated call: reads the records again, because they are not stored with the call, and
-- contains only messages that are still leased under this secret. Also returns how many of the sequences are
-- covered, which are in the answer, and which have to wait for suspects. The size of the first records decides how
-- many are read at a time.
local function answer_of(deadline, sequences, room, turn_of)
  local answer, claimed, looked, wanted, later = {deadline}, {}, 0, {}, {}
  local attempts_kept = redis.call('HLEN', KEYS[5]) > 0
  if attempts_kept then answer[2] = 'attempts' end
  local size, at, count = 32, #answer, 0
  while looked < #sequences do
    local last = math.min(looked + size, #sequences)
    local attempts = attempts_kept and redis.call('HMGET', KEYS[5], unpack(sequences, looked + 1, last))
    local begun = room
    local records = redis.call('HMGET', KEYS[4], unpack(sequences, looked + 1, last))
    for i = 1, last - looked do
      local record = records[i] or ''
      local sequence, apart = sequences[looked + i], bytes_apart(record)
      local is_full = room <= 0 and count >= least
      local turn = is_full and 'stop' or turn_of and attempts and turn_of(lease_of(sequence), attempts[i]) or 'now'
      if turn == 'stop' then
        put_bodies(KEYS[9], wanted)
        return answer, looked + i - 1, claimed, later
      elseif turn == 'later' then
        later[#later + 1] = sequence
      else
        room, count = room - #record - apart, count + 1
        claimed[count] = sequence
        answer[at + 1], answer[at + 2] = sequence, record
        at = at + 2
        if attempts then
          at = at + 1
          answer[at] = attempts[i] or ''
          room = room - #answer[at]
        end
        if apart > 0 then
          at = at + 1
          answer[at] = ''
          wanted[#wanted + 1] = {answer, at, sequence}
        end
      end
    end
    looked, size = last, next_portion(room, begun - room, last - looked)
  end
  put_bodies(KEYS[9], wanted)
  return answer, #sequences, claimed, later
end

if answered then
  local held = {}
  for i = 2, #answered do
    if redis.call('ZSCORE', KEYS[6], lease_of(answered[i])) then held[#held + 1] = answered[i] end
  end
  return (answer_of(answered[1], held, math.huge))
end

-- The hint may name a destination without waiting messages, but never leaves out one that has some.
if not redis.call('ZSCORE', KEYS[7], destination) then return keep(KEYS[1], number, {deadline}) end
-- If the list has withdrawn messages: how many messages at its front are not withdrawn.
local clean
local wanted = IS_FULL and WINDOW or most
if known[3] then
  expect('SCARD', KEYS[10])
  expect('ZCARD', KEYS[6])
  clean = pass_withdrawn(KEYS[2], KEYS[3], KEYS[10], wanted + 1)
  if not clean then
    to_end_of_active(KEYS[7], destination)
    return keep(KEYS[1], number, {text(now), 'again'})
  end
end
-- One more than allowed, to know whether there are more.
local last = clean and math.min(wanted, clean - 1) or wanted
local sequences = last < 0 and {} or redis.call(by_priority and 'ZRANGE' or 'LRANGE', KEYS[3], '0', text(last))
local has_more = #sequences > wanted or clean and redis.call('LLEN', KEYS[3]) > #sequences
sequences[wanted + 1] = nil
if #sequences == 0 then
  redis.call('ZREM', KEYS[7], destination)
  return keep(KEYS[1], number, {deadline})
end
local taken, is_paused = sequences, IS_FULL and is_delivery_paused(known[5])
if IS_FULL then taken = is_paused and {} or heads_among(sequences, ARGV[9], KEYS[4], KEYS[12], most) end
local turn_of, held_suspects = suspect_turns(known[4], KEYS[6], ARGV[10] == '1')
local answer, covered, claimed, later = answer_of(deadline, taken, tonumber(ARGV[7]), turn_of)
local suspects = held_suspects()
-- All or nothing: leave them for callers that want fewer.
if #claimed < least and not suspects and (#claimed > 0 or #later == 0) then
  if IS_FULL and not by_priority and not is_paused and #taken == 0 and has_more then
    -- No head among these: the next call looks at others.
    redis.call('LTRIM', KEYS[3], text(#sequences), '-1')
    redis.call('RPUSH', KEYS[3], unpack(sequences))
  end
  return keep(KEYS[1], number, {deadline, IS_FULL and 'full' or nil})
end
if IS_FULL then table.insert(answer, 2, 'full') end

local leases, call = {}, {deadline}
for i = 1, #claimed do
  local sequence = claimed[i]
  leases[2 * i - 1] = deadline
  leases[2 * i] = lease_of(sequence)
  call[i + 1] = sequence
end
if #later > 0 then
  expect('ZCARD', KEYS[6])
  local due = {}
  for i, sequence in ipairs(later) do
    due[2 * i - 1], due[2 * i] = text(now + SUSPECT_DELAY_MS), destination .. '/' .. sequence
  end
  redis.call('ZADD', KEYS[11], unpack(due))
  redis.call('HINCRBY', KEYS[2], 'delayed', #later)
end
-- The first write of a call without suspects, because only this key may have another type.
if #leases > 0 then redis.call('ZADD', KEYS[6], unpack(leases)) end
if suspects then redis.call('HSET', KEYS[2], 'suspects', cmsgpack.pack(suspects)) end
if by_priority then
  redis.call('ZREM', KEYS[3], unpack(taken, 1, covered))
elseif IS_FULL then
  -- The others return to the front, in their order.
  local is_taken, others = {}, {}
  for i = 1, covered do is_taken[taken[i]] = true end
  for i = #sequences, 1, -1 do
    if not is_taken[sequences[i]] then others[#others + 1] = sequences[i] end
  end
  redis.call('LTRIM', KEYS[3], text(#sequences), '-1')
  if #others > 0 then redis.call('LPUSH', KEYS[3], unpack(others)) end
else
  redis.call('LTRIM', KEYS[3], covered, '-1')
end
if covered == #sequences and not has_more then
  redis.call('ZREM', KEYS[7], destination)
else
  to_end_of_active(KEYS[7], destination)
end
keep(KEYS[1], number, call)
if suspects or #later > 0 then table.insert(answer, 2, 'again') end
return answer
