-- The epoch of the partition. Another server process, or another history of replication, than the
-- one that is noted may have forgotten something: the epoch then goes up, to the server's time at
-- least, so that even an epoch that was itself forgotten is never handed out again. Releases then
-- wait for quarantine_ms, until an owner that this server does not know of must have stopped.
-- The new epoch is written whatever the script then decides: it is a fact of its own.

-- Returns the epoch, and how many milliseconds releases must still wait.
local function current_epoch(key, now, quarantine_ms)
  local info = redis.call('INFO', 'server', 'replication')
  local server = string.match(info, 'run_id:(%x+)') .. string.match(info, 'master_replid:(%x+)')
  local noted = redis.call('HMGET', key, 'server', 'epoch', 'quarantine_ends_ms')
  if noted[1] == server then
    return tonumber(noted[2]), math.max(0, tonumber(noted[3]) - now)
  end
  local epoch = math.max((tonumber(noted[2]) or 0) + 1, now)
  local wait = noted[1] and quarantine_ms or 0
  redis.call('HSET', key, 'server', server, 'epoch', text(epoch),
    'quarantine_ends_ms', text(now + wait))
  return epoch, wait
end
