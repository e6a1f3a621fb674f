-- A message is a suspect from the time its lease expires until an attempt at it ends: the message may have crashed
-- its worker. Each suspect limits how many suspects of its destination are processed together, and each expired lease
-- halves that limit. So a message that crashes workers is soon processed alone. The destination's field `suspects`
-- holds the leases of suspects that are being processed, each with its limit. Other suspects get their turn after
-- SUSPECT_DELAY_MS.

-- Returns two functions. The first takes the lease and the stored attempts of a message. It returns 'now' if the
-- claim may take the message, 'later' if the message must wait for other suspects, or 'stop' if the claim must end
-- before the message. A claim takes only suspects, or no suspects. The second function returns the suspects under a
-- lease if the claim takes suspects, otherwise false. Without `may_be_alone`, the claim leaves out messages that
-- stalled twice: such a message must be the only suspect of its process.
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
