#!lua flags=allow-oom
-- fail: ends processing attempts that produced no output. The caller has decided, by version `version` of the
-- definition, what happens to each message (crates/domain/src/retry.rs). With `wait_ms`, the message gets another
-- attempt after this time. Otherwise it leaves with `how` as its kind of tombstone (withdraw.lua), or halts if `how`
-- is empty. A message that should leave is halted instead if there is no room for its dead letter, or if another
-- definition applies by now; the owner of the partition withdraws it later. With `is_later`, the attempt did not
-- fail: the worker wants to get the message again later. This does not count as a failed attempt.
--
-- Returns: {'ok' | 'halted' | 'withdrawn' | 'stale_lease' | 'settled' …} in the order of the call
-- Errors: NEWER_SCHEMA <schema>, STALE_CALL, LATE_CALL <ms since 1970>
-- include: schema, clock, call, leases, attempts, head, wake, waiting, serial, out_of_line, tombstones

local number = tonumber(call_number)
local answered = replayed(key_call, number)
if answered then return answered end
check_schema(key_epoch)

local held = deadlines(key_leases, members_of(failures))
-- Read from the destination itself, because the caller may know an old definition.
local definition = redis.call('HMGET', key_destination, 'ordering', 'processing', 'delivery', 'version', 'deleted')
local place = {
  destination = destination, ordering = definition[1], processing = definition[2], delivery = definition[3],
  hash = key_destination, waiting = key_waiting, messages = key_messages, bodies = key_bodies,
  attempts = key_attempts, delayed = key_delayed, withdrawals = key_withdrawals, withdrawing = key_withdrawing,
  dead_letters = key_dead_letters, dead_letter_messages = key_dead_letter_messages,
  dead_lettered_at = key_dead_lettered_at, releasable = key_releasable, lanes = key_lanes, consumers = key_consumers,
  consumer_lease_ends = key_consumer_lease_ends, builtin = key_active_builtin, worker = key_active_worker,
  wake = key_wake_waiting, wake_releasable = key_wake_releasable,
}
local is_current = definition[4] == version and not definition[5]
local room = room_for_letters(key_dead_letters, letters_max)

-- True if the message may leave now. A forged token, or a token from before a change of ordering, names another lane.
-- If a withdrawal is pending, the owner carries it out first.
local function may_go(failure)
  if failure.how == '' or not is_current or failure.how == 's' and room <= 0 then return false end
  return redis.call('ZSCORE', lanes[tonumber(failure.lane)].in_progress, failure.sequence)
    and redis.call('HEXISTS', key_withdrawals, failure.sequence) == 0
end

local now = now_ms()
local answer, gone, at_once, due, halted, leaving, failed = {}, {}, {}, {}, {}, {}, {}
for i, failure in ipairs(failures) do
  local sequence, wait_ms = failure.sequence, tonumber(failure.wait_ms)
  if held[i] and not failed[sequence] then
    local attempts = attempts_of(key_attempts, sequence)
    local asks_later = failure.is_later == '1'
    -- The worker is alive, so the message is not a suspect.
    attempts[7], attempts[11] = 0, asks_later and 1 or 0
    local count = asks_later and 10 or 1
    attempts[count] = attempts[count] + 1
    if not wait_ms or not asks_later then note_error(attempts, now, failure.problem) end
    failed[sequence] = attempts
    gone[#gone + 1] = failure.member
    answer[i] = 'ok'
    if not wait_ms then
      attempts[4] = 'transform'
      if may_go(failure) then
        answer[i] = 'withdrawn'
        leaving[#leaving + 1] = failure
        if failure.how == 's' then room = room - 1 end
      else
        answer[i] = 'halted'
        halted[#halted + 1] = text(now)
        halted[#halted + 1] = sequence
      end
    elseif wait_ms <= 0 then
      at_once[#at_once + 1] = sequence
    else
      due[#due + 1] = text(now + wait_ms)
      due[#due + 1] = destination .. '/' .. sequence
    end
  else
    answer[i] = why_gone(key_messages, sequence)
  end
end

if #gone > 0 then
  redis.call('ZREM', key_leases, unpack(gone))
  for sequence, attempts in pairs(failed) do keep_attempts(key_attempts, sequence, attempts) end
  if #halted > 0 then
    redis.call('ZADD', key_halted, unpack(halted))
    -- The owner reports the halted message. With on_exhausted, the owner may also withdraw it.
    wake(key_wake_releasable, destination)
  end
  if #due > 0 then
    redis.call('ZADD', key_delayed, unpack(due))
    redis.call('HINCRBY', key_destination, 'delayed', #due / 2)
  end
  if #at_once > 0 then to_front(place, at_once) end
  for _, failure in ipairs(leaving) do
    local sequence = failure.sequence
    local record = redis.call('HGET', key_messages, sequence) or ''
    leave(place, lanes[tonumber(failure.lane)], {sequence = sequence, record = record, how = failure.how,
      reason = failure.reason, stage = 'transform', attempts = cmsgpack.pack(failed[sequence])}, now)
  end
end
return keep(key_call, number, answer)
