-- A counter after a change: for damaged messages counters are not exact, so they never go below 0.
local function counted(counter, change)
  local number = (tonumber(counter) or 0) + change
  return number <= 0 and '0' or text(number)
end
