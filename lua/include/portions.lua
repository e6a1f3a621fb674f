-- Reads records in portions, so that not many more are read than fit into the answer.

-- How many to read next: as many as fit into `room`, by the mean size of those read so far.
local function next_portion(room, bytes_read, count_read)
  local mean = bytes_read / count_read + 1
  return math.max(32, math.min(1000, math.floor(room / mean)))
end
