-- Wake-ups are hints: Reseq also polls for the same work once a second. So a user who may not publish only
-- waits longer, and the script, which has already written, continues.

-- Publishes on this partition's channel.
local function wake(channel, destination)
  redis.pcall('SPUBLISH', channel, destination)
end

-- Publishes to all pods, on every node of a cluster.
local function wake_all(channel, name)
  redis.pcall('PUBLISH', channel, name)
end
