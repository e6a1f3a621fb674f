#!lua flags=allow-oom
-- topic: creates, changes or removes a topic, and notifies all pods.
--
-- Returns: 1 if the topic existed before
-- Errors: none
-- Sent again, it changes nothing: no call number is needed.
-- include: changes, wake

local noted = redis.call('HGET', key_topics, topic)
local definition = string.match(noted or '', '^%d+ (.*)$')
if not noted and content == '' then return 0 end
if definition == content then return 1 end

-- A topic's version is the revision of its last change.
note_change(key_topics, key_changes, key_removed, topic, removed_max, function(revision)
  if content ~= '' then return revision .. ' ' .. content end
end)
wake_all(channel, topic)
return noted and 1 or 0
