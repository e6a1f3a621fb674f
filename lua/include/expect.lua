-- Scripts have no rollback, so a key of the wrong type must fail before anything is written. The command
-- (HLEN, LLEN, ZCARD) is cheap, and fails on another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end

-- Cheaper where only the first writes can fail: runs one of them, and if it fails, undoes those before it.
local function write_or(undo, ...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    undo()
    error(answer)
  end
  return answer
end
