-- The server's time in milliseconds, the only clock that decides anything; and how to format numbers:
-- tostring turns large ones into 1.79e+15. All numbers here are whole, and %d is much faster than %.0f. Redis
-- would format a number argument as %.17g, which is slower still. The other way, `text + 0` parses a text once, and
-- tonumber twice (Lua, lbaselib.c: luaB_tonumber). It is for arguments. What is stored may be damaged, and an error
-- here would end the call: hence `tonumber(…) or 0`.

-- The same for all blocks of a call (blocks.lua).
local time_of_call

local function now_ms()
  if not time_of_call then
    local time = redis.call('TIME')
    time_of_call = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return time_of_call
end

local function text(number)
  return string.format('%d', number)
end

local now_text_of_call

-- The time as a text.
local function now_text()
  now_text_of_call = now_text_of_call or text(now_ms())
  return now_text_of_call
end
