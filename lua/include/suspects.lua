-- A message is a suspect from when its lease expires until an attempt at it ends: it may have crashed its worker.
-- Only so many suspects of a destination are processed at once as each of them allows, half as many after each
-- expired lease, so that the guilty one is soon alone. Those under a lease are in the field `suspects` of the
-- destination: the lease, and how many it allows. Other suspects get their turn after SUSPECT_DELAY_MS.

-- Returns a function of a sequence, its lease and its attempts as stored: 'now' if a claim may take the message,
-- 'later' if other suspects are processed, 'stop' if the claim ends before it. A claim takes only suspects, or none.
-- Also returns the suspects under a lease, and what the claim takes. Messages that stalled twice are left out unless
-- `may_be_alone`: they must be the only suspects of their process.
local function suspect_turns(noted, leases, may_be_alone)
  local held, taken, count, most = nil, nil, 0, math.huge
  local function read_held()
    local could_read, all = pcall(cmsgpack.unpack, noted or '')
    held = {}
    if not could_read or type(all) ~= 'table' then return end
    for lease, together in pairs(all) do
      if redis.call('ZSCORE', leases, lease) then
        held[lease], count, most = together, count + 1, math.min(most, together)
      end
    end
  end
  return function(lease, kept)
    local attempts = kept and attempts_in(kept)
    local together = attempts and attempts[7] or 0
    if together == 0 then
      if taken == 'suspects' then return 'stop' end
      taken = 'others'
      return 'now'
    end
    if not held then read_held() end
    if taken == 'others' or count >= math.min(most, together) or not may_be_alone and attempts[2] > 1 then
      return taken == 'suspects' and 'stop' or 'later'
    end
    taken, held[lease], count, most = 'suspects', together, count + 1, math.min(most, together)
    return 'now'
  end, function() return taken == 'suspects' and held end
end
