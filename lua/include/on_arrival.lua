-- Messages that are leased on arrival: the pod that stamps them processes them at once. They never wait, so no claim and
-- no wake-up is needed.

-- True if arrivals may be leased under this secret: no message waits, so none is passed over.
local function may_lease(secret, paused, waiting, ordering)
  return secret ~= '' and not string.find(paused, 'processing', 1, true)
    and redis.call(ordering == 'none' and 'ZCARD' or 'LLEN', waiting) == 0
end

-- Leases these sequences under this secret. Returns the part of the answer to ingest that says so. `previous` (optional)
-- has what the records say of the message before each.
local function lease_on_arrival(leases, destination, secret, deadline, sequences, previous)
  local members, told = {}, {}
  for i, sequence in ipairs(sequences) do
    members[2 * i - 1], members[2 * i] = deadline, destination .. '/' .. sequence .. '/' .. secret
    told[i] = previous and sequence .. ',' .. previous[i] or sequence
  end
  redis.call('ZADD', leases, unpack(members))
  return {0, 'leased', deadline, 0, table.concat(told, ' ')}
end
