-- An index of names that pods follow: the entry of each name, and when the entry changed. Only `note_change` writes
-- it. Three more fields cannot be names: '*' counts the changes, '*floor' is the newest change that the index has
-- forgotten, '*history' is the server's replication id. A pod reads the whole index again if its revision is below
-- the floor or belongs to another history.

local function server_history()
  local info = redis.call('INFO', 'replication')
  local _, at = string.find(info, 'master_replid:', 1, true)
  return string.sub(info, at + 1, at + 40)
end

-- `index`, `changes`, `removed`: the three keys. `entry_of(revision)` returns the new entry of the name, or
-- nil to remove it. At most `removed_max` removed names are remembered.
local function note_change(index, changes, removed, name, removed_max, entry_of)
  redis.call('ZCARD', changes)
  redis.call('ZCARD', removed)
  local held = redis.call('HMGET', index, '*', '*history')
  local history = server_history()
  local revision = string.format('%d', (tonumber(held[1]) or 0) + 1)
  local entry = entry_of(revision)
  redis.call('HSET', index, '*', revision)
  if held[2] ~= history then redis.call('HSET', index, '*history', history) end
  redis.call('ZADD', changes, revision, name)
  if entry then
    redis.call('HSET', index, name, entry)
    redis.call('ZREM', removed, name)
    return
  end
  redis.call('HDEL', index, name)
  redis.call('ZADD', removed, revision, name)
  if redis.call('ZCARD', removed) > tonumber(removed_max) then
    local oldest = redis.call('ZPOPMIN', removed)
    redis.call('ZREM', changes, oldest[1])
    redis.call('HSET', index, '*floor', oldest[2])
  end
end
