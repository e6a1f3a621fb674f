-- Wake-ups are hints: Reseq also polls for the same work once a second. So if the Redis user may not publish, the
-- work only waits longer; the script, which has already written, continues.

-- In a call of several blocks (blocks.lua): the names to publish at the end of the call, by kind of wake-up, and a
-- channel for that kind. One more message on a channel costs Redis and every listener much more than one more name in
-- a message.
local wakes_of_call

-- Publishes on this partition's channel. A call of several blocks publishes on the channel of any one of their
-- partitions: a pod that listens for a kind of wake-up listens on the channels of all partitions of a server. A
-- wake-up of `other_kind` is a separate message, because older versions cannot read it.
local function wake(channel, destination, other_kind)
  if not wakes_of_call then
    redis.pcall('SPUBLISH', channel, destination)
    return
  end
  -- The end of the channel names the kind. (Lua would try a pattern at each character.)
  local kind = other_kind or string.sub(channel, -7)
  local names = wakes_of_call[kind]
  if names then
    names[#names + 1] = destination
  else
    wakes_of_call[kind] = {channel = channel, destination}
  end
end

local function publish_wakes()
  for _, names in pairs(wakes_of_call) do
    redis.pcall('SPUBLISH', names.channel, table.concat(names, ' '))
  end
end

-- Publishes to all pods, on every node of a cluster.
local function wake_all(channel, name)
  redis.pcall('PUBLISH', channel, name)
end
