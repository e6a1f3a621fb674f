#!lua flags=allow-oom
-- purge: removes a batch of messages, and the lanes they stood in, of a destination that is being
-- removed.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] messages      reseq:{p07}:d:<dest>:messages
--   [3…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]
-- ARGV:
--   the sequences
-- Returns: how many were removed
-- Errors: WRONG_STATE
-- Sent again it removes nothing more: no call number is needed.

if not redis.call('HGET', KEYS[1], 'deleted') then
  return redis.error_reply('WRONG_STATE the destination is not being removed')
end
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
return redis.call('HDEL', KEYS[2], unpack(ARGV))
