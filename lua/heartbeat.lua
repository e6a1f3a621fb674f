#!lua flags=allow-oom
-- heartbeat: records that a pod is alive in a role, and counts the live pods. Removes pods that were silent
-- for too long. If the clock has stepped back, none counts for longer than this caller's heartbeat. It must run even
-- when memory is full: senders that do not count each other keep all partitions.
--
-- KEYS:
--   [1] pods   reseq:pods
-- ARGV:
--   [1] role  [2] pod  [3] how long this heartbeat counts, ms
-- Returns: {the number of pods in the role, including this one; milliseconds until the next of the others
--   expires if it stays silent, or how long this one counts}
-- Errors: none. Sent again, it counts a little longer: no call number is needed.
-- include: clock

local now, prefix = now_ms(), ARGV[1] .. ':'
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[3])), prefix .. ARGV[2])
local count, longest = 0, tonumber(ARGV[3])
local silent_for = longest
local pods = redis.call('ZRANGE', KEYS[1], 0, 9999, 'WITHSCORES')
for i = 1, #pods, 2 do
  if string.sub(pods[i], 1, #prefix) == prefix then
    count = count + 1
    local left = tonumber(pods[i + 1]) - now
    if left > longest then redis.call('ZADD', KEYS[1], text(now + longest), pods[i]) end
    silent_for = math.min(silent_for, left)
  end
end
return {count, silent_for}
