#!lua flags=allow-oom
-- reap: recovers the messages of dead processors, messages whose delay is over, and destinations whose rest is over
-- (include/rate.lua). Halts messages whose leases expired too often while no other message could have crashed their
-- worker.
--
-- Returns: {expired leases, ended delays, halted messages}
-- Errors: NEWER_SCHEMA <schema>
-- Leases and delays that are not over or do not exist any more stay unchanged: no call number is needed.
-- include: schema, clock, attempts, wake, waiting

check_schema(key_epoch)
local now = now_ms()
local definition = redis.call('HMGET', key_destination, 'version', 'stalls_max', 'ordering')
local exists, most = definition[1], tonumber(definition[2]) or 0

-- The limit of messages that count as processed together, because a field of the destination lists the suspects that
-- are being processed.
local SUSPECTS_MAX = 512
-- Returns the members whose time is over.
local function over(key, members)
  local all, seen = {}, {}
  for _, member in ipairs(members) do
    local score = not seen[member] and tonumber(redis.call('ZSCORE', key, member) or '')
    if score and score <= now then all[#all + 1] = member end
    seen[member] = true
  end
  return all
end

local expired, due = over(key_leases, leases), over(key_delayed, delays)
local place = {
  destination = destination, ordering = definition[3], hash = key_destination, waiting = key_waiting,
  messages = key_messages, builtin = key_active_builtin, worker = key_active_worker, wake = key_wake_waiting,
}
-- True if no other message of the partition was leased, so that this message probably crashed the worker.
local is_lone = expired_together == '1' and redis.call('ZCARD', key_leases) == 1

if #expired > 0 then redis.call('ZREM', key_leases, unpack(expired)) end
if #due > 0 then redis.call('ZREM', key_delayed, unpack(due)) end
-- If the destination was removed, only its leftover leases and delays end here.
if not exists then return {#expired, #due, 0} end

local back, halted = {}, {}
for _, member in ipairs(expired) do
  -- A lease that names no message is only removed.
  local sequence = string.match(member, '/(%d+)/') or ''
  local attempts = attempts_of(key_attempts, sequence)
  attempts[2], attempts[11] = attempts[2] + 1, 0
  -- Without a limit of stalls, it does not matter which message crashed the worker.
  if most > 0 then
    -- The message was the only suspect of its destination. From the third lease on, claims also make it the only
    -- suspect of its process.
    if is_lone or attempts[7] == 1 and attempts[2] > 2 then attempts[8] = attempts[8] + 1 end
    -- Half of the number of messages that were processed together (include/suspects.lua).
    local together = attempts[7] > 0 and attempts[7] or tonumber(expired_together)
    attempts[7] = math.max(1, math.floor(math.min(together, SUSPECTS_MAX) / 2))
  end
  local holder = string.match(member, '@([%w._:@-]+)$') or 'the processor'
  note_error(attempts, now, '{"stage":"transform","kind":"stalled","detail":"its lease ran out: ' .. holder
    .. ' died, or did not extend it in time"}')
  if sequence == '' then
    attempts = nil
  elseif most > 0 and attempts[8] >= most then
    attempts[4] = 'transform'
    halted[#halted + 1] = text(now)
    halted[#halted + 1] = sequence
  else
    back[#back + 1] = sequence
  end
  if attempts then keep_attempts(key_attempts, sequence, attempts) end
end
local ended, rest_is_over = 0, false
for _, member in ipairs(due) do
  if member == destination .. '/rate' then
    rest_is_over = true
  else
    ended = ended + 1
    back[#back + 1] = string.match(member, '/(%d+)$')
  end
end
if ended > 0 then redis.call('HINCRBY', key_destination, 'delayed', -ended) end
if #halted > 0 then
  redis.call('ZADD', key_halted, unpack(halted))
  -- The owner reports the halted message. With on_exhausted, the owner may also withdraw it.
  wake(key_wake_releasable, destination)
end
if #back > 0 then to_front(place, back) end
-- Notifies processors or workers as if the waiting messages were new.
if rest_is_over and redis.call('EXISTS', key_waiting) == 1 then tell_claimers(place, 1, 1) end
return {#expired, ended, #halted / 2}
