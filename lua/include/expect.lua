-- There is no rollback: a key that holds another type than it should must be met before anything
-- is written. The command (HLEN, LLEN, ZCARD) costs next to nothing, and fails on another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end
