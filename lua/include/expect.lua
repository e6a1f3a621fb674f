-- Scripts have no rollback, so a key of the wrong type must fail before anything is written. The command
-- (HLEN, LLEN, ZCARD) is cheap, and fails on another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end
