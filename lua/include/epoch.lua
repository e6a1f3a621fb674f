-- The epoch of the partition. Another server process, or another history of replication, than the
-- one that is noted may have forgotten something; so has a server that knows of a lower epoch than
-- the caller, or of none. The epoch then goes up: above all that is noted or was seen, and to the
-- server's time at least, so that even an epoch that was itself forgotten is never handed out again.
-- Releases then wait (quarantine) until an owner that this server does not know of must have
-- stopped: the longest lease that the caller or this partition knows of; or until such an owner says
-- that it has (disown).
-- The new epoch is written whatever the script then decides: it is a fact of its own.
--
-- Who is noted is the run id and the replication id. The second alone tells a change of either: a
-- process that starts as a primary draws a new one, and so does one that becomes a primary (Redis,
-- replication.c: changeReplicationId, shiftReplicationId). INFO is dear, so no more is asked for.

-- What follows a name in the text of INFO: an id of forty digits. Found plainly: a pattern would be
-- tried at every character.
local function id_after(name, info)
  local _, at = string.find(info, name, 1, true)
  return string.sub(info, at + 1, at + 40)
end

-- `known` is what the caller knows: '<lease of owners, ms> <highest epoch that it has seen>'.
-- Returns the epoch, how many milliseconds releases must still wait, and the schema.
local function current_epoch(key, now, known)
  local noted = redis.call('HMGET', key, 'server', 'epoch', 'quarantine_ends_ms', 'lease_ms', 'schema')
  local schema = known_schema(noted[5])
  local history = id_after('master_replid:', redis.call('INFO', 'replication'))
  local lease_ms, seen = string.match(known, '^(%d+) ?(%d*)$')
  local epoch = tonumber(noted[2]) or 0
  seen = tonumber(seen) or 0
  if noted[1] and string.sub(noted[1], 41) == history and epoch >= seen then
    return epoch, math.max(0, tonumber(noted[3]) - now), schema
  end
  epoch = math.max(math.max(epoch, seen) + 1, now)
  local wait = math.max(tonumber(lease_ms), tonumber(noted[4]) or 0)
  local server = id_after('run_id:', redis.call('INFO', 'server')) .. history
  redis.call('HSET', key, 'server', server, 'epoch', text(epoch),
    'quarantine_ends_ms', text(now + wait))
  return epoch, wait, schema
end
