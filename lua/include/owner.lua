-- The fence for senders. The value of the owner key is '<token> <deadline>'.

-- The owners of partitions: read once a call, however many blocks (blocks.lua) it has of a partition.
local owners = {}

-- True while the token's partition lease lasts.
local function owns(key, token, now)
  owners[key] = owners[key] or redis.call('GET', key) or ''
  local held, deadline = string.match(owners[key], '^(%S+) (%d+)$')
  return held == token and tonumber(deadline) > now
end
