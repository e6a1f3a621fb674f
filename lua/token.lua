#!lua flags=allow-oom
-- token: makes or revokes a token, and notifies all pods.
--
-- KEYS:
--   [1] tokens    reseq:{index}:tokens
--   [2] changes   reseq:{index}:tokens:changes
--   [3] removed   reseq:{index}:tokens:removed
--   [4] used      reseq:{index}:tokens:used
-- ARGV:
--   [1] id  [2] the token (JSON, without its secret), or '' to revoke it  [3] the channel
--   reseq:wake:definitions; not a key, because the keys of one script share a slot on a cluster  [4] how many
--   removed ids are remembered  [5] the most tokens
-- Returns: 1 if it existed before
-- Errors: TOO_MANY_TOKENS <the most>
-- Sent again, it changes nothing: no call number is needed.
-- include: changes, wake, expect

local noted = redis.call('HGET', KEYS[1], ARGV[1])
local is_revoked = ARGV[2] == ''
if is_revoked and not noted then return 0 end
if string.match(noted or '', '^%d+ (.*)$') == ARGV[2] then return 1 end
-- Three fields of the index are no names.
if not noted and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) + 3 then
  return redis.error_reply('TOO_MANY_TOKENS ' .. ARGV[5])
end
expect('HLEN', KEYS[4])

note_change(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[4], function(revision)
  if not is_revoked then return revision .. ' ' .. ARGV[2] end
end)
if is_revoked then redis.call('HDEL', KEYS[4], ARGV[1]) end
wake_all(ARGV[3], ARGV[1])
return noted and 1 or 0
