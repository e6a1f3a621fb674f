-- Long bodies are stored apart from their records, in the hash `bodies`: the body as it is now in the
-- field '<sequence>', the body as it arrived, where that is kept too, in '<sequence>i'. The record of
-- such a message begins with 'B<length>;'. A body belongs to its pending message, then to its dead
-- letter or to its entry of the log.

-- The bytes of a record's body that is stored apart; 0 where the body is in the record.
local function bytes_apart(record)
  if string.byte(record) ~= 66 then return 0 end
  return tonumber(string.match(record, '^B(%d+);')) or 0
end

-- Puts bodies into answers: `wanted` holds {answer, place in it, sequence}. A missing one stays '', and each
-- where they cannot be read: these messages are damaged, and hide no other.
local function put_bodies(bodies, wanted)
  for from = 1, #wanted, 1000 do
    local upto, fields = math.min(from + 999, #wanted), {}
    for i = from, upto do fields[#fields + 1] = wanted[i][3] end
    local found = redis.pcall('HMGET', bodies, unpack(fields))
    for i, body in ipairs(found.err and {} or found) do
      local one = wanted[from + i - 1]
      one[1][one[2]] = body or ''
    end
  end
end

-- Removes the bodies of these sequences, up to 1,000 at a time, as far as there are any.
local function remove_bodies(bodies, sequences)
  if #sequences == 0 or redis.call('HLEN', bodies) == 0 then return end
  for from = 1, #sequences, 1000 do
    local fields = {}
    for i = from, math.min(from + 999, #sequences) do
      fields[#fields + 1] = sequences[i]
      fields[#fields + 1] = sequences[i] .. 'i'
    end
    redis.call('HDEL', bodies, unpack(fields))
  end
end
