-- The schema of a partition: which record formats the partition may contain, and how its other data is stored. `reseq
-- migrate` raises the schema. Rust puts `local SCHEMA_KNOWN = <the newest schema that the calling pod knows>` before
-- this text.

-- A pattern for the first character of a record, after the prefix that scripts add.
local KNOWN_FORMAT = '^[3-' .. SCHEMA_KNOWN .. ']'

-- Returns the stored schema, as text. If a pod does not know this schema, it must change nothing, so this raises an
-- error.
local last_known
local function known_schema(noted)
  local schema = noted or '3'
  if schema ~= last_known and tonumber(schema) > SCHEMA_KNOWN then
    error(redis.error_reply('NEWER_SCHEMA ' .. schema))
  end
  last_known = schema
  return schema
end

-- The fields of the epoch key of each partition, read once per call, however many blocks (blocks.lua) need them. Only
-- `current_epoch` changes this table.
local partitions = {}

local function partition_of(epoch)
  local noted = partitions[epoch]
  if not noted then
    noted = redis.call('HMGET', epoch, 'server', 'epoch', 'takeover_wait_ms', 'lease_ms', 'schema',
      'removed_epoch')
    partitions[epoch] = noted
  end
  return noted
end

-- The schema and epoch of each partition, for calls that read no other fields of it: two fields cost less than all
-- fields.
local schemas = {}

-- Returns the partition's schema and its stored epoch. Scripts that call current_epoch do not need this function,
-- because current_epoch returns both.
local function check_schema(epoch)
  local all = partitions[epoch]
  if all then return known_schema(all[5]), all[2] end
  local some = schemas[epoch]
  if not some then
    some = redis.call('HMGET', epoch, 'schema', 'epoch')
    schemas[epoch] = some
  end
  return known_schema(some[1]), some[2]
end
