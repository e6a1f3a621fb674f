-- The keys of dead letters: `dead` holds their sequences, `letters` their content, `dead_at` the time at which each
-- message became a dead letter, `bodies` their long bodies.

-- Removes these dead letters. Returns how many of them existed.
local function remove_letters(dead, letters, dead_at, bodies, sequences)
  redis.call('HDEL', letters, unpack(sequences))
  redis.call('ZREM', dead_at, unpack(sequences))
  remove_bodies(bodies, sequences)
  return redis.call('ZREM', dead, unpack(sequences))
end
