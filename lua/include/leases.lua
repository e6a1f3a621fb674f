-- Checks of lease tokens. A lease is a member '<destination>/<sequence>/<secret>' of the partition's leases. Only a
-- caller that names this exact member holds the lease.

-- Returns the lease members of these rows.
local function members_of(rows)
  local members = {}
  for i, row in ipairs(rows) do members[i] = row.member end
  return members
end

-- Returns the deadline of each member (from index `from` to `to`, if given), in order; false if the lease is gone.
local function deadlines(leases, members, from, to)
  return redis.call('ZMSCORE', leases, unpack(members, from or 1, to or #members))
end

-- Returns the answer for a caller that no longer holds the lease: 'settled' if the message has left, too.
local function why_gone(messages, sequence)
  if redis.call('HEXISTS', messages, sequence) == 0 then return 'settled' end
  return 'stale_lease'
end
