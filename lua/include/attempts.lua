-- The results of earlier attempts: a hash by sequence, with entries only for messages that need one. An entry is
-- MessagePack of {failed attempts in the current stage, expired leases, checkpoint or '', stage in which the message
-- halted or '', due time of a message that awaits its turn or '', {'<ms since 1970> <error as JSON>' …, newest
-- first}, how many suspects may be processed together with this message (0: the message is not a suspect), leases
-- that expired while the message was processed alone, when the checkpoint was stored in ms since 1970 or 0, how often
-- a worker asked to get the message later, 1 if the last attempt ended with such a request}.

local function new_attempts(checkpoint, errors)
  return {0, 0, checkpoint, '', '', errors, 0, 0, 0, 0, 0}
end

-- Unreadable attempts count as no attempts.
local function attempts_in(kept)
  local could_read, attempts = pcall(cmsgpack.unpack, kept or '')
  local is_whole = could_read and type(attempts) == 'table' and type(attempts[6]) == 'table'
    and tonumber(attempts[1]) and tonumber(attempts[2]) and tonumber(attempts[7]) and tonumber(attempts[8])
    and tonumber(attempts[9]) and tonumber(attempts[10]) and tonumber(attempts[11])
  if is_whole then return attempts end
  return new_attempts('', {})
end

local function attempts_of(key, sequence)
  return attempts_in(redis.call('HGET', key, sequence))
end

local function keep_attempts(key, sequence, attempts)
  redis.call('HSET', key, sequence, cmsgpack.pack(attempts))
end

-- Adds an error. Keeps five errors: the newest ones, and the first error of the attempts that count now. That error
-- shows since when the message fails. The caller must count the attempt before it calls this function.
local function note_error(attempts, now, error)
  local errors = attempts[6]
  table.insert(errors, 1, text(now) .. ' ' .. error)
  if errors[6] then table.remove(errors, attempts[1] + attempts[2] > 5 and 5 or 6) end
end
