-- The rate of a destination's transform: on average, claims take at most `per_second` messages a second, and at most
-- `burst` at once (generic cell rate algorithm). Each message uses one interval of time. The destination's field
-- `granted_until` is the end of the used time, in microseconds since 1970. It is at most `burst` intervals after now.
--
-- While a message must wait for the next interval, the destination rests: the member '<destination>/rate' of
-- `delayed` replaces its entry in `active`, so that no processor or worker claims in vain. At the end of the
-- interval, reap restores the entry.

-- Returns the state of the rate: the length of an interval, how much of the used time is ahead of now (both in
-- microseconds), and how many messages a claim may take.
local function rate_of(hash, per_second, burst)
  local interval = math.ceil(SECOND_US / per_second)
  local ahead = (tonumber(redis.call('HGET', hash, 'granted_until')) or 0) - now_ms() * 1000
  -- The used time ends later than that if the clock stepped back, or if an earlier definition allowed more.
  ahead = math.max(0, math.min(ahead, burst * interval))
  return {interval = interval, burst = burst, ahead = ahead, left = burst - math.ceil(ahead / interval)}
end

-- Uses the time of this many messages.
local function use_rate(rate, hash, count)
  rate.ahead, rate.left = rate.ahead + count * rate.interval, rate.left - count
  redis.call('HSET', hash, 'granted_until', text(now_ms() * 1000 + rate.ahead))
end

-- Lets the destination rest until a claim may take one message. Returns the time until then in milliseconds, as text;
-- nil if the destination has no entry in `active`.
local function rest(rate, destination, active, delayed)
  if redis.call('ZREM', active, destination) == 0 then return nil end
  local wait_ms = math.ceil((rate.ahead - (rate.burst - 1) * rate.interval) / 1000)
  redis.call('ZADD', delayed, text(now_ms() + wait_ms), destination .. '/rate')
  return text(wait_ms)
end
