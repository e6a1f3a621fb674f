#!lua flags=allow-oom
-- delete_destination_batch: removes a batch of messages, their lanes, leases and delays, of a destination that
-- is being removed. A lease that stayed would apply to a message with the same number once the destination is
-- created again.
--
-- KEYS:
--   [1] destination   reseq:{p07}:d:<dest>
--   [2] messages      reseq:{p07}:d:<dest>:messages
--   [3] leases        reseq:{p07}:leases
--   [4] delayed       reseq:{p07}:delayed
--   [5] epoch         reseq:{p07}:epoch
--   [6…] per lane 2: in_progress reseq:{p07}:d:<dest>:in-progress[:<key>], ready …:ready[:<key>]; or
--   whatever else is left over of the destination
-- ARGV:
--   [1] number of sequences  [2] number of leases; then the sequences, the members of leases, the
--   members of delayed
-- Returns: how many messages were removed
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE
-- Sent again, it removes nothing more: no call number is needed.
-- include: schema, expect

check_schema(KEYS[5])
if not redis.call('HGET', KEYS[1], 'deleted') then
  return redis.error_reply('WRONG_STATE the destination is not being removed')
end
local sequence_count, lease_count = tonumber(ARGV[1]), tonumber(ARGV[2])
if sequence_count > 0 then expect('HLEN', KEYS[2]) end
expect('ZCARD', KEYS[3], KEYS[4])
local delays = 3 + sequence_count + lease_count
for i = 6, #KEYS do redis.call('UNLINK', KEYS[i]) end
if lease_count > 0 then
  redis.call('ZREM', KEYS[3], unpack(ARGV, 3 + sequence_count, delays - 1))
end
if #ARGV >= delays then redis.call('ZREM', KEYS[4], unpack(ARGV, delays)) end
if sequence_count == 0 then return 0 end
return redis.call('HDEL', KEYS[2], unpack(ARGV, 3, 2 + sequence_count))
