-- Wake-ups are hints: whatever they hasten is also looked for once a second. So a user who may not
-- publish only waits longer; the script, which has written by now, goes on.

-- Tells who listens for it on this partition's channel.
local function wake(channel, destination)
  redis.pcall('SPUBLISH', channel, destination)
end

-- Tells all pods, on every node of a cluster.
local function wake_all(channel, name)
  redis.pcall('PUBLISH', channel, name)
end
