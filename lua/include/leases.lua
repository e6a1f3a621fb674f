-- Checks of lease tokens. A lease is a member '<destination>/<sequence>/<secret>' of the
-- partition's leases: who does not hold the very member holds nothing.

-- The scores (deadlines) of the members, those from one place to another if these are given, in
-- order; false where the lease is gone.
local function deadlines(leases, members, from, to)
  return redis.call('ZMSCORE', leases, unpack(members, from or 1, to or #members))
end

-- What to answer to a holder whose lease is gone: settled if the message is gone too.
local function why_gone(messages, sequence)
  if redis.call('HEXISTS', messages, sequence) == 0 then return 'settled' end
  return 'stale_lease'
end
