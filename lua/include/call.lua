-- Makes a script safe to repeat: each caller numbers its calls, and Redis stores the answer to the caller's last
-- call. A caller makes one call at a time, so only the last answer can be lost. The number is also a deadline in
-- microseconds by the clock of this server: the call may not run later, and Redis stores the answer until then, even
-- if the clock steps. A call whose deadline is more than CALL_MS_MAX ahead is also refused: Redis would store its
-- answer for that long.

-- Returns the stored answer if this call has already run; an error if the caller has made a later call, or if this
-- call came too late; nil for a new call.
local function replayed(key, number)
  local kept = redis.call('GET', key)
  if kept then
    local call = cmsgpack.unpack(kept)
    if call[1] == number then return call[2] end
    if call[1] > number then
      return redis.error_reply('STALE_CALL this caller has gone on to another call')
    end
  end
  local left_ms = number / 1000 - now_ms()
  if left_ms < 0 or left_ms > CALL_MS_MAX then return redis.error_reply('LATE_CALL ' .. now_text()) end
end

-- Stores the answer for as long as the caller may repeat the call.
local function keep(key, number, answer)
  redis.call('SET', key, cmsgpack.pack({number, answer}), 'PXAT', text(math.ceil(number / 1000)))
  return answer
end
