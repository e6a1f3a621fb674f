-- The server's time in milliseconds, the only clock for decisions; and functions to format and parse numbers.
-- tostring turns large numbers into 1.79e+15. All numbers here are whole, and %d is much faster than %.0f. Redis
-- formats a number argument with %.17g, which is slower still. To parse an argument, use `text + 0`: it parses once,
-- tonumber twice (Lua, lbaselib.c: luaB_tonumber). To parse a stored value, use `tonumber(…) or 0`: the value may be
-- damaged, and an error here would end the call.

-- The time is read once for all blocks of a call (blocks.lua).
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
