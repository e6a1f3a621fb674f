-- The epoch of the partition. Redis may have lost data if the server process or the replication history differs from
-- the stored one, if the server has no epoch, or if its epoch is lower than the caller's. Then `current_epoch` raises
-- the epoch above all stored and seen epochs, and at least to the server's time, so that even a forgotten epoch is
-- never used again. After that, releases wait (takeover wait) until an owner that this server has forgotten must have
-- stopped: as long as the longest lease that the caller or this partition knows of. A sender ends the wait
-- (resign_partition) when that time has passed by its own clock since it first saw the epoch; or earlier, if it was
-- that owner and has stopped. The new epoch stays stored even if the script then refuses the call.
--
-- The run id and the replication id identify the server. If either changes, the replication id changes: a process
-- that starts as a primary, or becomes a primary, creates a new one (Redis, replication.c: changeReplicationId,
-- shiftReplicationId). INFO is expensive, so this check reads only its section with the replication id.

-- Returns the id of forty digits that follows a name in the text of INFO. Uses a plain search: Lua would try a
-- pattern at every character.
local function id_after(name, info)
  local _, at = string.find(info, name, 1, true)
  return string.sub(info, at + 1, at + 40)
end

-- The replication id, read once for all blocks of a call (blocks.lua).
local history_of_call

local function history_of_server()
  history_of_call = history_of_call or id_after('master_replid:', redis.call('INFO', 'replication'))
  return history_of_call
end

-- The parsed `seen_epoch` arguments, as numbers: {lease, epoch of the partition, epoch of a message or creation}.
-- Blocks of a call (blocks.lua) often pass the same text, and parsing is expensive.
local parsed = {}

local function parse_known(seen_epoch)
  if not parsed[seen_epoch] then
    local lease_ms, seen, carried = string.match(seen_epoch, '^(%d+) ?(%d*) ?(%d*)$')
    parsed[seen_epoch] = {tonumber(lease_ms), tonumber(seen) or 0, tonumber(carried) or 0}
  end
  return unpack(parsed[seen_epoch])
end

-- The messages of a destination carry the epoch of the partition, or the epoch in which the destination was created
-- if that is higher. A destination that is created after a removal gets an epoch above `removed_epoch`, the highest
-- epoch that a message of any removed destination may have carried. So a removal does not affect other destinations,
-- and Redis stores only one number for all removals. A new epoch of the partition is above these epochs, too.
--
-- `seen_epoch` holds the caller's knowledge: '<lease of owners, ms> <highest epoch of the partition seen> <highest
-- epoch of a message or of a creation seen>'. Returns the epoch, the length of the takeover wait in ms (0: it is
-- over), the schema, and the lowest epoch in which a destination may be created now.
local function current_epoch(key, now, seen_epoch)
  local noted = partition_of(key)
  local schema = known_schema(noted[5])
  local history = history_of_server()
  local lease_ms, seen, carried = parse_known(seen_epoch)
  local epoch = tonumber(noted[2]) or 0
  local birth = math.max(epoch, (tonumber(noted[6]) or 0) + 1)
  if noted[1] and string.sub(noted[1], 41) == history and epoch >= seen and birth >= carried then
    return epoch, tonumber(noted[3]) or 0, schema, birth
  end
  epoch = math.max(math.max(birth, seen, carried) + 1, now)
  local wait = math.max(lease_ms, tonumber(noted[4]) or 0)
  local server = id_after('run_id:', redis.call('INFO', 'server')) .. history
  redis.call('HSET', key, 'server', server, 'epoch', text(epoch), 'takeover_wait_ms', text(wait))
  noted[1], noted[2], noted[3] = server, text(epoch), text(wait)
  return epoch, wait, schema, epoch
end
