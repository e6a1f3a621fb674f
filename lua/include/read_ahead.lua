-- Scripts read records in portions, so that they read few records that do not fit into the answer.

-- Returns how many records to read next: as many as fit into `room`, by the mean size of the records just read.
local function next_portion(room, bytes_read, count_read)
  local mean = bytes_read / count_read + 1
  return math.max(32, math.min(1000, math.floor(room / mean)))
end
