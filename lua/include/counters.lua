-- Returns a counter after a change. Counters are not exact for damaged messages, so they never go below 0.
local function counted(counter, change)
  local number = (tonumber(counter) or 0) + change
  return number <= 0 and '0' or text(number)
end
