-- What attempts at messages left behind: a hash by sequence, that holds only messages with something
-- to tell. Each is MessagePack of {failed attempts of the present stage, leases that ran out,
-- checkpoint or '', stage in which it is halted or '', due time of a held message or '', {'<ms since
-- 1970> <trouble as JSON>' …, the latest first}}.

local function attempts_of(key, sequence)
  local kept = redis.call('HGET', key, sequence)
  if kept then return cmsgpack.unpack(kept) end
  return {0, 0, '', '', '', {}}
end

local function keep_attempts(key, sequence, attempts)
  redis.call('HSET', key, sequence, cmsgpack.pack(attempts))
end

-- Adds a trouble; the last five are kept.
local function note_trouble(attempts, now, trouble)
  table.insert(attempts[6], 1, text(now) .. ' ' .. trouble)
  attempts[6][6] = nil
end
