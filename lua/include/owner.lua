-- The fence for senders. The value of the owner key is '<token> <lease, ms> <count of renewals>'. It has no deadline,
-- because the clock of Redis may step: an owner stops by its own clock, and another takes the partition only if this
-- value has not changed for a lease by the clock of the taker (acquire_partition).

-- The owners of partitions: read once a call, however many blocks (blocks.lua) it has of a partition.
local owners = {}

-- True until another sender has taken the partition, or it was given back.
local function owns(key, token)
  local owner = owners[key] or redis.call('GET', key) or ''
  owners[key] = owner
  -- Compared as a text: a pattern would be tried at each character.
  return string.sub(owner, 1, #token + 1) == token .. ' '
end
