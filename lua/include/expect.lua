-- Scripts have no rollback, so a key of the wrong type must fail before anything is written. The command
-- (HLEN, LLEN, ZCARD) is cheap, and fails on another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end

-- Cheaper where only the first writes can fail: if the one with this answer has failed, undoes those before it.
local function written_or(undo, answer)
  if type(answer) == 'table' and answer.err then
    undo()
    error(answer)
  end
  return answer
end
