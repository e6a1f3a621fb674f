-- A key of the wrong type must not fail the whole call: a call for several lanes or messages continues with
-- the others.

-- Returns the answer of a command, or nil if the command fails, for example on a key of the wrong type. Do not use it
-- for commands that may return nil.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then return nil end
  return answer
end
