-- The fence for senders. The value of the owner key is '<token> <deadline>'.

-- True while the token's partition lease lasts.
local function owns(key, token, now)
  local held, deadline = string.match(redis.call('GET', key) or '', '^(%S+) (%d+)$')
  return held == token and tonumber(deadline) > now
end
