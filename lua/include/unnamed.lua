-- Bodies that nothing names any more: no record, no dead letter, no entry of the log.

-- True if a body may belong to this sequence although no record names it.
local function has_left_body(letters, log, sequence)
  return redis.call('HEXISTS', letters, sequence) == 1 or redis.call('HEXISTS', log, sequence) == 1
end

local function remove_unnamed_bodies(messages, letters, log, bodies, sequence)
  if redis.call('HEXISTS', messages, sequence) == 0 and not has_left_body(letters, log, sequence) then
    remove_bodies(bodies, {sequence})
  end
end
