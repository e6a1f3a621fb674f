#!lua flags=allow-oom
-- beat: a pod says that it lives in a role, and counts those who do. Who was silent for too long is
-- struck off. It must run when memory is full: senders that do not count each other give nothing up.
--
-- KEYS:
--   [1] pods   reseq:pods
-- ARGV:
--   [1] role  [2] pod  [3] how long it counts, ms
-- Returns: the number of pods in the role, this one among them
-- Errors: none. Sent again it lives a little longer: no call number is needed.
-- include: clock

local now, prefix = now_ms(), ARGV[1] .. ':'
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[3])), prefix .. ARGV[2])
local count = 0
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, 9999)) do
  if string.sub(member, 1, #prefix) == prefix then count = count + 1 end
end
return count
