#!lua
-- claim: gives a processor waiting messages of one destination, under a lease.
--
-- Returns: {deadline in ms since 1970, sequence, record, sequence, record …}; or, if any of the messages has earlier
--   attempts, {deadline, 'attempts', sequence, record, attempts or '' …}; a record ('': missing) whose body is stored
--   out of line is followed by the body ('': missing); {deadline, 'again', …}: more messages may wait, although this
--   answer has fewer than `most`; {deadline, 'rest', ms, …}: the rate of the destination allows the next claim only
--   after this time; {deadline, 'full', …}: Redis has no memory left, so the claim took only heads of lanes. An
--   answer with suspects contains no other messages, and may contain fewer than `fewest`
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>, UNKNOWN_DESTINATION, STALE_DEFINITION
-- include: schema, clock, call, out_of_line, claim_fast, rate

local number, by_priority, least = call_number + 0, ordering == 'none', fewest + 0

local answered = replayed(key_call, number)
if answered and (answered.err or string.find(answered[2] or '', '^%a')) then return answered end

local now = now_ms()
most = most + 0
local deadline = text(now + lease_ms)
local definition, rate
if not answered then
  check_schema(key_epoch)
  definition = redis.call('HMGET', key_destination, 'version', 'deleted', 'withdrawn', 'suspects', 'paused')
  if not definition[1] or definition[2] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
  if definition[1] ~= version then return redis.error_reply('STALE_DEFINITION ' .. definition[1]) end
  local paused = definition[5] or ''
  if string.find(paused, 'processing', 1, true) then return keep(key_call, number, {deadline}) end
  if rate_per_second ~= '0' then
    rate = rate_of(key_destination, rate_per_second + 0, rate_burst + 0)
    if rate.left < 1 then
      use_rate(rate, key_destination, 0)
      local rest_ms = rest(rate, destination, key_active, key_delayed)
      return keep(key_call, number, {deadline, rest_ms and 'rest', rest_ms})
    end
    most = math.min(most, rate.left)
  end
  if not IS_FULL and not by_priority and not definition[3] and least <= 1 and most >= 1 then
    local sequence, record =
      claim_fast(destination, key_waiting, key_messages, key_attempts, key_leases, key_active, deadline, secret,
        bytes_max + 0)
    if sequence then
      if rate then use_rate(rate, key_destination, 1) end
      keep(key_call, number, {deadline, sequence})
      return {deadline, sequence, record}
    end
  end
end

-- The rest of the script is for calls that cannot take the fast path.
-- include: read_ahead, withdrawn, bodies, attempts, suspects, reserve, heads

-- Processors serve destinations in turn: puts this destination behind all others. A destination that was not served
-- yet has turn 0.
local function to_end_of_active()
  local last = redis.call('ZRANGE', key_active, '-1', '-1', 'WITHSCORES')[2]
  redis.call('ZADD', key_active, text((tonumber(last) or 0) + 1), destination)
end

local before_sequence, after_sequence = destination .. '/', '/' .. secret
local function lease_of(sequence)
  return before_sequence .. sequence .. after_sequence
end

-- Builds the answer. A repeated call reads the records again, because Redis does not store them with the call; its
-- `sequences` are only the messages that are still leased under this secret. Also returns how many of the sequences
-- this call has handled, which of them the answer contains, and which messages must wait for other suspects. The size
-- of the records just read decides how many records the function reads next.
local function answer_of(deadline, sequences, room, turn_of)
  local answer, claimed, looked, wanted, later = {deadline}, {}, 0, {}, {}
  local attempts_kept = redis.call('HLEN', key_attempts) > 0
  if attempts_kept then answer[2] = 'attempts' end
  local size, at, count = 32, #answer, 0
  while looked < #sequences do
    local last = math.min(looked + size, #sequences)
    local attempts = attempts_kept and redis.call('HMGET', key_attempts, unpack(sequences, looked + 1, last))
    local begun = room
    local records = redis.call('HMGET', key_messages, unpack(sequences, looked + 1, last))
    for i = 1, last - looked do
      local record = records[i] or ''
      local sequence, apart = sequences[looked + i], bytes_out_of_line(record)
      local is_full = room <= 0 and count >= least
      local turn = is_full and 'stop' or turn_of and attempts and turn_of(lease_of(sequence), attempts[i]) or 'now'
      if turn == 'stop' then
        put_bodies(key_bodies, wanted)
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
  put_bodies(key_bodies, wanted)
  return answer, #sequences, claimed, later
end

if answered then
  local held = {}
  for i = 2, #answered do
    if redis.call('ZSCORE', key_leases, lease_of(answered[i])) then held[#held + 1] = answered[i] end
  end
  return (answer_of(answered[1], held, math.huge))
end

-- If the list has withdrawn messages: the number of messages at its front that are not withdrawn.
local clean
local wanted = IS_FULL and WINDOW or most
if definition[3] then
  clean = pass_withdrawn(key_destination, key_waiting, key_withdrawn, wanted + 1)
  if not clean then
    to_end_of_active()
    return keep(key_call, number, {text(now), 'again'})
  end
end
-- Read one message more than wanted, to know whether there are more.
local last = clean and math.min(wanted, clean - 1) or wanted
local sequences = last < 0 and {} or redis.call(by_priority and 'ZRANGE' or 'LRANGE', key_waiting, '0', text(last))
local has_more = #sequences > wanted or clean and redis.call('LLEN', key_waiting) > #sequences
sequences[wanted + 1] = nil
if #sequences == 0 then
  redis.call('ZREM', key_active, destination)
  return keep(key_call, number, {deadline})
end
local taken, is_paused = sequences, IS_FULL and is_delivery_paused(definition[5])
if IS_FULL then taken = is_paused and {} or heads_among(sequences, ordering, key_messages, key_lanes, most) end
local turn_of, held_suspects = suspect_turns(definition[4], key_leases, has_no_suspects == '1')
local answer, covered, claimed, later = answer_of(deadline, taken, tonumber(bytes_max), turn_of)
local suspects = held_suspects()
-- The claim found fewer messages than the caller wants: leave them for callers that accept fewer.
if #claimed < least and not suspects and (#claimed > 0 or #later == 0) then
  if IS_FULL and not by_priority and not is_paused and #taken == 0 and has_more then
    -- None of these messages is a head: move them to the end, so that the next call looks at other messages.
    redis.call('LTRIM', key_waiting, text(#sequences), '-1')
    redis.call('RPUSH', key_waiting, unpack(sequences))
  end
  return keep(key_call, number, {deadline, IS_FULL and 'full' or nil})
end
if IS_FULL then table.insert(answer, 2, 'full') end
if rate and #claimed > 0 then use_rate(rate, key_destination, #claimed) end

local leases, call = {}, {deadline}
for i = 1, #claimed do
  local sequence = claimed[i]
  leases[2 * i - 1] = deadline
  leases[2 * i] = lease_of(sequence)
  call[i + 1] = sequence
end
if #later > 0 then
  local due = {}
  for i, sequence in ipairs(later) do
    due[2 * i - 1], due[2 * i] = text(now + SUSPECT_DELAY_MS), destination .. '/' .. sequence
  end
  redis.call('ZADD', key_delayed, unpack(due))
  redis.call('HINCRBY', key_destination, 'delayed', #later)
end
if #leases > 0 then redis.call('ZADD', key_leases, unpack(leases)) end
if suspects then redis.call('HSET', key_destination, 'suspects', cmsgpack.pack(suspects)) end
if by_priority then
  if covered > 0 then redis.call('ZREMRANGEBYRANK', key_waiting, '0', text(covered - 1)) end
elseif IS_FULL then
  -- Put the other messages back at the front, in their order.
  local is_taken, others = {}, {}
  for i = 1, covered do is_taken[taken[i]] = true end
  for i = #sequences, 1, -1 do
    if not is_taken[sequences[i]] then others[#others + 1] = sequences[i] end
  end
  redis.call('LTRIM', key_waiting, text(#sequences), '-1')
  if #others > 0 then redis.call('LPUSH', key_waiting, unpack(others)) end
else
  redis.call('LTRIM', key_waiting, covered, '-1')
end
if covered == #sequences and not has_more then
  redis.call('ZREM', key_active, destination)
elseif rate and rate.left < 1 then
  local rest_ms = rest(rate, destination, key_active, key_delayed)
  if rest_ms then
    table.insert(answer, 2, rest_ms)
    table.insert(answer, 2, 'rest')
  end
else
  to_end_of_active()
end
keep(key_call, number, call)
if suspects or #later > 0 then table.insert(answer, 2, 'again') end
return answer
