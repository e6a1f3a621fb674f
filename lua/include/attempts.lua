-- What attempts at messages left behind: a hash by sequence, that holds only messages with something
-- to tell. Each is MessagePack of {failed attempts of the present stage, leases that ran out,
-- checkpoint or '', stage in which it is halted or '', due time of a held message or '', {'<ms since
-- 1970> <error as JSON>' …, the latest first}}.

-- What cannot be read counts as nothing.
local function attempts_of(key, sequence)
  local kept = redis.call('HGET', key, sequence)
  local could_read, attempts = pcall(cmsgpack.unpack, kept or '')
  local is_whole = could_read and type(attempts) == 'table' and type(attempts[6]) == 'table'
    and tonumber(attempts[1]) and tonumber(attempts[2])
  if is_whole then return attempts end
  return {0, 0, '', '', '', {}}
end

local function keep_attempts(key, sequence, attempts)
  redis.call('HSET', key, sequence, cmsgpack.pack(attempts))
end

-- Adds an error; the last five are kept.
local function note_error(attempts, now, error)
  table.insert(attempts[6], 1, text(now) .. ' ' .. error)
  attempts[6][6] = nil
end
