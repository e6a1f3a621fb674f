#!lua flags=allow-oom
-- token: creates or revokes an API token, and notifies all pods.
--
-- Returns: 1 if the token existed before
-- Errors: TOO_MANY_TOKENS <the most>
-- Sent again, it changes nothing: no call number is needed.
-- include: changes, wake

local noted = redis.call('HGET', key_tokens, id)
local is_revoked = token == ''
if is_revoked and not noted then return 0 end
if string.match(noted or '', '^%d+ (.*)$') == token then return 1 end
-- Three fields of the index are not tokens.
if not noted and redis.call('HLEN', key_tokens) >= tonumber(most) + 3 then
  return redis.error_reply('TOO_MANY_TOKENS ' .. most)
end

note_change(key_tokens, key_changes, key_removed, id, removed_max, function(revision)
  if not is_revoked then return revision .. ' ' .. token end
end)
if is_revoked then redis.call('HDEL', key_used, id) end
wake_all(channel, id)
return noted and 1 or 0
