-- Records are looked at some at a time, so that no more are read than there is room for.

-- How many to look at next: so many of the mean size of those before as fit into the room.
local function next_look(room, bytes_looked_at, count_looked_at)
  local mean = bytes_looked_at / count_looked_at + 1
  return math.max(32, math.min(1000, math.floor(room / mean)))
end
