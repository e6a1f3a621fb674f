#!lua flags=allow-oom
-- delete_destination_batch: removes a batch of messages of a destination that is being removed, with their lanes,
-- leases and delays. If a lease remained, it would apply to a message with the same sequence after the destination is
-- created again.
--
-- Returns: how many messages were removed
-- Errors: NEWER_SCHEMA <schema>, WRONG_STATE
-- Sent again, it removes nothing more: no call number is needed.
-- include: schema, expect

check_schema(key_epoch)
if not redis.call('HGET', key_destination, 'deleted') then
  return redis.error_reply('WRONG_STATE the destination is not being removed')
end
if #sequences > 0 then expect('HLEN', key_messages) end
expect('ZCARD', key_leases, key_delayed)
for _, key in ipairs(left_over) do redis.call('UNLINK', key) end
if #leases > 0 then redis.call('ZREM', key_leases, unpack(leases)) end
if #delays > 0 then redis.call('ZREM', key_delayed, unpack(delays)) end
if #sequences == 0 then return 0 end
return redis.call('HDEL', key_messages, unpack(sequences))
