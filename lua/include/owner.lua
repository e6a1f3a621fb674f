-- The fence for senders. The value of the owner key is '<token> <lease, ms> <count of renewals>'. The key does not
-- expire, because the clock of Redis may step. An owner stops by its own clock. Another sender takes the partition
-- only if the value has stayed unchanged for the length of a lease, by that sender's own clock (acquire_partition).

-- The owner of each partition, read once per call, however many blocks (blocks.lua) need it.
local owners = {}

-- True until another sender takes the partition, or the owner resigns it.
local function owns(key, token)
  local owner = owners[key] or redis.call('GET', key) or ''
  owners[key] = owner
  -- Compare text: Lua would try a pattern at each character.
  return string.sub(owner, 1, #token + 1) == token .. ' '
end
