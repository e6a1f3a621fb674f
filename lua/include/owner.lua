-- The fence for senders. The value of the owner key is '<token> <deadline>'.

-- The owners of partitions: read once a call, however many blocks (blocks.lua) it has of a partition.
local owners = {}

-- True while the token's partition lease lasts.
local function owns(key, token, now)
  local owner = owners[key] or redis.call('GET', key) or ''
  owners[key] = owner
  -- Compared as a text: a pattern would be tried at each character.
  return string.sub(owner, 1, #token + 1) == token .. ' ' and (tonumber(string.sub(owner, #token + 2)) or 0) > now
end
