-- For scripts that must run although a key of the destination may have the wrong type (types.lua). Such a script
-- checks the keys that it needs before it writes anything. `command` (HLEN, LLEN, ZCARD) is cheap, and fails if the
-- key has another type.

local function expect(command, ...)
  for i = 1, select('#', ...) do redis.call(command, (select(i, ...))) end
end
