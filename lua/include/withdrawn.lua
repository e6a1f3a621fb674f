-- If a message is withdrawn while it waits in a long list, it stays in the list, because a search in a long list is
-- slow. The set `withdrawn` names such messages, the destination's field `withdrawn` counts them, and claims skip
-- them.

-- The most messages of one read, and the most reads of one call.
local FRONT, FRONTS_MAX = 1000, 10

-- Marks these waiting messages as withdrawn.
local function note_withdrawn(hash, withdrawn, sequences)
  for from = 1, #sequences, 1000 do
    local upto = math.min(from + 999, #sequences)
    redis.call('SADD', withdrawn, unpack(sequences, from, upto))
  end
  redis.call('HINCRBY', hash, 'withdrawn', #sequences)
end

-- Splits the sequences `front`: adds the unmarked ones to `kept`, and returns the marked ones.
local function part_withdrawn(withdrawn, front, kept)
  local marks, passed = redis.call('SMISMEMBER', withdrawn, unpack(front)), {}
  for i, sequence in ipairs(front) do
    local list = marks[i] == 1 and passed or kept
    list[#list + 1] = sequence
  end
  return passed
end

-- Removes withdrawn messages from the front of the list, until at least `wanted` other messages are there. Returns
-- the number of other messages there; nil if the call has used all its reads and found none.
local function pass_withdrawn(hash, waiting, withdrawn, wanted)
  local kept, passed_count, has_ended = {}, 0, false
  for look = 1, FRONTS_MAX do
    local front = redis.call('LRANGE', waiting, 0, FRONT - 1)
    has_ended = #front == 0
    if has_ended then break end
    local passed = part_withdrawn(withdrawn, front, kept)
    if look == 1 and #passed == 0 then return #front end
    redis.call('LTRIM', waiting, #front, -1)
    if #passed > 0 then redis.call('SREM', withdrawn, unpack(passed)) end
    passed_count = passed_count + #passed
    if #kept >= wanted then break end
  end
  for i = #kept, 1, -1000 do
    local back = {}
    for at = i, math.max(i - 999, 1), -1 do back[#back + 1] = kept[at] end
    redis.call('LPUSH', waiting, unpack(back))
  end
  -- If the whole list was read, it contains no marked message any more.
  if has_ended or redis.call('HINCRBY', hash, 'withdrawn', -passed_count) <= 0 then
    redis.call('UNLINK', withdrawn)
    redis.call('HDEL', hash, 'withdrawn')
  end
  if #kept == 0 and not has_ended then return nil end
  return #kept
end
