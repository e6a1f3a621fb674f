-- The epoch of the partition. Another server process, or another history of replication, than the
-- one that is noted may have forgotten something; so has a server that knows of a lower epoch than
-- the caller, or of none. The epoch then goes up: above all that is noted or was seen, and to the
-- server's time at least, so that even an epoch that was itself forgotten is never handed out again.
-- Releases then wait (takeover wait) until an owner that this server does not know of must have
-- stopped: the longest lease that the caller or this partition knows of; or until such an owner says
-- that it has (resign_partition).
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

-- The messages of a destination carry the epoch of the partition, or the one that the destination was
-- born in if that is higher: one that is made after a removal is born above `removed_epoch`, the highest
-- epoch that a message of any removed destination can have carried. So a removal changes nothing for the
-- other destinations, and takes one number. A new epoch of the partition goes above these, too.
--
-- `known` is what the caller knows: '<lease of owners, ms> <highest epoch of the partition that it has
-- seen> <highest epoch of a message, or of a birth, that it has seen>'.
-- Returns the epoch, how many milliseconds releases must still wait, the schema, and the lowest epoch
-- that a destination which is made now may be born in.
local function current_epoch(key, now, known)
  local noted = redis.call('HMGET', key, 'server', 'epoch', 'takeover_wait_ends_ms', 'lease_ms', 'schema',
    'removed_epoch')
  local schema = known_schema(noted[5])
  local history = id_after('master_replid:', redis.call('INFO', 'replication'))
  local lease_ms, seen, carried = string.match(known, '^(%d+) ?(%d*) ?(%d*)$')
  local epoch = tonumber(noted[2]) or 0
  local birth = math.max(epoch, (tonumber(noted[6]) or 0) + 1)
  seen, carried = tonumber(seen) or 0, tonumber(carried) or 0
  if noted[1] and string.sub(noted[1], 41) == history and epoch >= seen and birth >= carried then
    return epoch, math.max(0, tonumber(noted[3]) - now), schema, birth
  end
  epoch = math.max(math.max(birth, seen, carried) + 1, now)
  local wait = math.max(tonumber(lease_ms), tonumber(noted[4]) or 0)
  local server = id_after('run_id:', redis.call('INFO', 'server')) .. history
  redis.call('HSET', key, 'server', server, 'epoch', text(epoch),
    'takeover_wait_ends_ms', text(now + wait))
  return epoch, wait, schema, epoch
end
