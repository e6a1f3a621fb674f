-- Redis does not roll scripts back, so a script must fail on a key of the wrong type before it writes anything.
-- `command` (HLEN, LLEN, ZCARD) is cheap, and fails on another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end

-- Cheaper than `expect` where only the first writes can fail. If the write with this answer has failed, undoes the
-- writes before it and raises the error.
local function written_or(undo, answer)
  if type(answer) == 'table' and answer.err then
    undo()
    error(answer)
  end
  return answer
end
