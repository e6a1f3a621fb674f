-- Bodies that no record, dead letter or log entry refers to any more.

-- True if a dead letter or a log entry may still use the body of this sequence.
local function has_left_body(letters, log, sequence)
  return redis.call('HEXISTS', letters, sequence) == 1 or redis.call('HEXISTS', log, sequence) == 1
end

local function remove_unnamed_bodies(messages, letters, log, bodies, sequence)
  if redis.call('HEXISTS', messages, sequence) == 0 and not has_left_body(letters, log, sequence) then
    remove_bodies(bodies, {sequence})
  end
end
