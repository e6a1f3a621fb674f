-- What makes a script safe to send again: each caller numbers its calls, and its last answer is
-- kept. A caller makes one call at a time, so the last answer is all that it can still miss.

-- The answer that the caller already got to this call; or the error for a call that came late,
-- after the caller had gone on to another. Nothing for a new call.
local function replayed(key, number)
  local kept = redis.call('GET', key)
  if not kept then return nil end
  local call = cmsgpack.unpack(kept)
  if call[1] == number then return call[2] end
  if call[1] > number then
    return redis.error_reply('STALE_CALL this caller has gone on to another call')
  end
end

-- Keeps the answer for as long as a call may be sent again.
local function keep(key, number, answer)
  redis.call('SET', key, cmsgpack.pack({number, answer}), 'PX', '60000')
  return answer
end
