-- Rules for a full Redis: it has no memory left, but a message that leaves frees more memory than its completion
-- adds. So completions continue: always if they add little, and for heads of lanes from a reserve.

-- A message that grows by at most this many bytes counts as one that does not grow: processing stores its times, and
-- an output may be slightly longer than its input.
local GROWTH_MAX = 1024
-- The reserve: Redis may use its maxmemory multiplied by this factor.
local RESERVE = 1.05
-- When the reserve is used up, a destination may still store this many heads that leave at once.
local HEADS_BEYOND = 16

local beyond_reserve

-- True if the reserve is used up. INFO is expensive, so a call reads it at most once.
local function is_beyond_reserve()
  if beyond_reserve == nil then
    local info = redis.call('INFO', 'memory')
    local function field(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)')) or 0 end
    beyond_reserve = field('used_memory') - field('mem_not_counted_for_evict') > RESERVE * field('maxmemory')
  end
  return beyond_reserve
end

-- True if one more head may be stored. When the reserve is used up, a head may still be stored if few other messages
-- of the destination can leave: otherwise all its messages would wait for ever.
local heads_left
local function has_room_for_head(lanes)
  if not is_beyond_reserve() then return true end
  heads_left = (heads_left or HEADS_BEYOND - redis.call('ZCARD', lanes)) - 1
  return heads_left >= 0
end

-- True if the destination's delivery is paused. Then no message that is stored for it would leave.
local function is_delivery_paused(paused) return string.find(paused or '', 'delivery', 1, true) end
