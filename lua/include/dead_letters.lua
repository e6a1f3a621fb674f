-- Dead letters: `dead` has their sequences, `letters` their content, `dead_at` when each became one, `bodies`
-- their long bodies.

-- Removes these dead letters; returns how many there were.
local function remove_letters(dead, letters, dead_at, bodies, sequences)
  redis.call('HDEL', letters, unpack(sequences))
  redis.call('ZREM', dead_at, unpack(sequences))
  remove_bodies(bodies, sequences)
  return redis.call('ZREM', dead, unpack(sequences))
end
