-- A long list stores its length in `n`, and begins as {n = 0}. Without `n`, the operator # would search for the end
-- each time.

-- Adds two elements, for commands that take pairs.
local function add(list, one, other)
  local n = list.n
  list[n + 1], list[n + 2] = one, other
  list.n = n + 2
end
