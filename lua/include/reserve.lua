-- Redis has no memory left, but a message that leaves frees more than its completion adds. So completions go on: those
-- that add little always, heads of lanes from a reserve.

-- The bytes that a message may grow by and still count as one that does not grow. Processing notes its times, and an
-- output may be a little longer than its input.
local GROWTH_MAX = 1024
-- The reserve: Redis may use this much of its maxmemory.
local RESERVE = 1.05
-- Where the reserve is used up, a destination still stores this many heads that leave at once.
local HEADS_BEYOND = 16

local beyond_reserve

-- True if the reserve is used up. INFO is expensive, so it is asked at most once a call.
local function is_beyond_reserve()
  if beyond_reserve == nil then
    local info = redis.call('INFO', 'memory')
    local function field(name) return tonumber(string.match(info, '\n' .. name .. ':(%d+)')) or 0 end
    beyond_reserve = field('used_memory') - field('mem_not_counted_for_evict') > RESERVE * field('maxmemory')
  end
  return beyond_reserve
end

-- True if one more head may be stored. Where the reserve is used up, and few other messages of the destination can
-- leave, it may: otherwise all would wait for ever.
local heads_left
local function has_room_for_head(lanes)
  if not is_beyond_reserve() then return true end
  heads_left = (heads_left or HEADS_BEYOND - redis.call('ZCARD', lanes)) - 1
  return heads_left >= 0
end

-- What is stored for a destination whose delivery is paused would not leave.
local function is_delivery_paused(paused) return string.find(paused or '', 'delivery', 1, true) end
