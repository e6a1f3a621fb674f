#!lua flags=allow-oom
-- step_back: after the clock has stepped back, moves times back by the step, so that they do not come too late: ends
-- of leases, of rests (include/rate.lua), and of waits after an attempt in processing (`delays`) and in delivery
-- (`hints`). The script does not move the end of a delay that a producer asked for.
--
-- Returns: 1
-- Errors: NEWER_SCHEMA <schema>
-- Members whose score has changed, or that do not exist any more, stay unchanged: no call number is needed.
-- include: schema, clock, attempts, head

check_schema(key_epoch)
back_ms = tonumber(back_ms)
local ordering = redis.call('HGET', key_destination, 'ordering')

-- Returns new scores for the members whose score is still the one that the caller saw.
local function moved(key, members, moves)
  local all = {}
  for _, one in ipairs(members) do
    local score = tonumber(redis.call('ZSCORE', key, one.member) or '')
    if score and score == tonumber(one.score) and (not moves or moves(one.member)) then
      all[#all + 1], all[#all + 2] = text(score - back_ms), one.member
    end
  end
  return all
end

local moved_leases = moved(key_leases, leases)
local moved_delays = moved(key_delayed, delays, function(member)
  if member == destination .. '/rate' then return true end
  local attempts = attempts_of(key_attempts, string.match(member, '%d+$'))
  return attempts[1] > 0 or attempts[7] > 0 or attempts[11] > 0
end)
local moved_hints = moved(ordering == 'destination' and key_releasable or key_lanes, hints)

if #moved_leases > 0 then redis.call('ZADD', key_leases, unpack(moved_leases)) end
if #moved_delays > 0 then redis.call('ZADD', key_delayed, unpack(moved_delays)) end
if ordering then move_hints(key_releasable, key_lanes, destination, ordering, moved_hints, {}) end
return 1
