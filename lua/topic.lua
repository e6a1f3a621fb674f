#!lua flags=allow-oom
-- topic: creates, changes or removes a topic, and notifies all pods.
--
-- KEYS:
--   [1] topics    reseq:{index}:topics
--   [2] changes   reseq:{index}:topics:changes
--   [3] removed   reseq:{index}:topics:removed
-- ARGV:
--   [1] topic  [2] its definition (JSON), or '' to remove it  [3] the channel reseq:wake:definitions; not a
--   key, because the keys of one script share a slot on a cluster  [4] how many removed names are remembered
-- Returns: 1 if it existed before
-- Errors: none
-- Sent again, it changes nothing: no call number is needed.
-- include: changes, wake

local noted = redis.call('HGET', KEYS[1], ARGV[1])
local definition = string.match(noted or '', '^%d+ (.*)$')
if not noted and ARGV[2] == '' then return 0 end
if definition == ARGV[2] then return 1 end

-- A topic's version is the revision of its last change.
note_change(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[4], function(revision)
  if ARGV[2] ~= '' then return revision .. ' ' .. ARGV[2] end
end)
wake_all(ARGV[3], ARGV[1])
return noted and 1 or 0
