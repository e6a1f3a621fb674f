#!lua flags=allow-oom
-- delete_destination: begins the removal of a destination. From then on, scripts refuse to ingest into it, claim from
-- it or release from it.
--
-- Returns: {version, pending messages}
-- Errors: NEWER_SCHEMA <schema>, UNKNOWN_DESTINATION, WRONG_STATE
-- Sent again, it continues: no call number is needed.
-- include: schema, clock, expect

check_schema(key_epoch)
-- If the key is not a hash, the number of pending messages is unknown, but the removal must still work.
local kind = redis.call('TYPE', key_destination)['ok']
if how == 'with_all' and kind ~= 'hash' and kind ~= 'none' then
  expect('ZCARD', key_active_builtin, key_active_worker, key_releasable, key_withdrawing)
  redis.call('UNLINK', key_destination)
  redis.call('HSET', key_destination, 'version', text(now_ms()), 'last', '1')
end
local definition = redis.call('HMGET', key_destination, 'version', 'last', 'settled', 'deleted')
if not definition[1] then return redis.error_reply('UNKNOWN_DESTINATION no such destination') end
if how == 'completes' and not definition[4] then
  return redis.error_reply('WRONG_STATE the destination is not being removed')
end
local pending = (tonumber(definition[2]) or 0) - (tonumber(definition[3]) or 0)
if pending > 0 and how == 'if_empty' then
  return redis.error_reply(string.format('WRONG_STATE %.0f messages are pending', pending))
end
local dead = how ~= 'if_empty' and 0 or redis.call('ZCARD', key_dead_letters)
if dead > 0 then
  return redis.error_reply(string.format('WRONG_STATE there are %.0f dead letters', dead))
end
expect('ZCARD', key_active_builtin, key_active_worker, key_releasable, key_withdrawing)
redis.call('HSET', key_destination, 'deleted', '1')
redis.call('ZREM', key_active_builtin, destination)
redis.call('ZREM', key_active_worker, destination)
redis.call('ZREM', key_releasable, destination)
redis.call('ZREM', key_withdrawing, destination)
return {definition[1], pending}
