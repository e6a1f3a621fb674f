-- Messages that are leased on arrival: the pod that stamps these messages processes them at once. They never wait, so
-- they need no claim and no wake-up.

-- True if arrivals may be leased under this secret: no message waits, so the arrivals overtake no message.
local function may_lease(secret, paused, waiting, ordering)
  return secret ~= '' and not string.find(paused, 'processing', 1, true)
    and redis.call(ordering == 'none' and 'ZCARD' or 'LLEN', waiting) == 0
end

-- Leases these sequences under this secret. Returns the entry for the answer of ingest that lists them. `previous`
-- (optional) holds, for each sequence, the previous message of its lane as its record names it.
local function lease_on_arrival(leases, destination, secret, deadline, sequences, previous)
  local members, told = {}, {}
  for i, sequence in ipairs(sequences) do
    members[2 * i - 1], members[2 * i] = deadline, destination .. '/' .. sequence .. '/' .. secret
    told[i] = previous and sequence .. ',' .. previous[i] or sequence
  end
  redis.call('ZADD', leases, unpack(members))
  return {0, 'leased', deadline, 0, table.concat(told, ' ')}
end
