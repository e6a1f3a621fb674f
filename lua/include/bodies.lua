-- Long bodies are stored out of line: in the hash `bodies`, not in their records. The field '<sequence>' holds the
-- current body. If Reseq also keeps the body as it arrived, the field '<sequence>i' holds it. The record of such a
-- message begins with 'B<length>;'. A body belongs to its pending message, later to its dead letter or log entry.

-- Adds bodies to answers. `wanted` holds {answer, index in that answer, sequence}. A missing body stays ''.
local function put_bodies(bodies, wanted)
  for from = 1, #wanted, 1000 do
    local upto, fields = math.min(from + 999, #wanted), {}
    for i = from, upto do fields[#fields + 1] = wanted[i][3] end
    for i, body in ipairs(redis.call('HMGET', bodies, unpack(fields))) do
      local one = wanted[from + i - 1]
      one[1][one[2]] = body or ''
    end
  end
end

-- Removes the bodies of these sequences, up to 1,000 per command, if there are any.
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
