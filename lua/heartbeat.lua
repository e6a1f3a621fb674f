#!lua flags=allow-oom
-- heartbeat: records that a pod is alive in a role, and counts the live pods. Removes pods that were silent for too
-- long. After a step back of the clock, no pod counts for longer than this caller's heartbeat lasts. The script must
-- run even when memory is full: if senders did not count each other, each would keep all its partitions.
--
-- Returns: {the number of pods in the role, including this pod; milliseconds until the first pod of the role expires
--   if it stays silent}
-- Errors: none. Sent again, it counts a little longer: no call number is needed.
-- include: clock

local now, prefix = now_ms(), role .. ':'
redis.call('ZREMRANGEBYSCORE', key_pods, '-inf', text(now))
redis.call('ZADD', key_pods, text(now + tonumber(lasts_ms)), prefix .. pod)
local count, longest = 0, tonumber(lasts_ms)
local silent_for = longest
local pods = redis.call('ZRANGE', key_pods, 0, 9999, 'WITHSCORES')
for i = 1, #pods, 2 do
  if string.sub(pods[i], 1, #prefix) == prefix then
    count = count + 1
    local left = tonumber(pods[i + 1]) - now
    if left > longest then redis.call('ZADD', key_pods, text(now + longest), pods[i]) end
    silent_for = math.min(silent_for, left)
  end
end
return {count, silent_for}
