-- The server's time in milliseconds, the only clock that decides anything; and how numbers are
-- written (tostring turns large ones into 1.79e+15; all numbers here are whole, which %d writes much
-- faster than %.0f; a number that a command is given is written by Redis as %.17g, slower still).

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text(number)
  return string.format('%d', number)
end
