-- Makes a script safe to repeat: each caller numbers its calls, and Redis stores the answer to the last one. A
-- caller makes one call at a time, so only that answer can be lost.

-- The stored answer, if this call has already run; an error, if the caller has made a later call; nil for a
-- new call.
local function replayed(key, number)
  local kept = redis.call('GET', key)
  if not kept then return nil end
  local call = cmsgpack.unpack(kept)
  if call[1] == number then return call[2] end
  if call[1] > number then
    return redis.error_reply('STALE_CALL this caller has gone on to another call')
  end
end

-- Keeps the answer for as long as the call may be repeated.
local function keep(key, number, answer)
  redis.call('SET', key, cmsgpack.pack({number, answer}), 'PX', '60000')
  return answer
end
