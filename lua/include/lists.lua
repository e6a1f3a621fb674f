-- Long lists count what they hold, from {n = 0} on: # would look for the end each time.

-- Adds two: what commands take in pairs.
local function add(list, one, other)
  local n = list.n
  list[n + 1], list[n + 2] = one, other
  list.n = n + 2
end
