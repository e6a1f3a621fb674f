-- The schema of a partition: which record formats it may contain, and how a version of Reseq stores other
-- data. `reseq migrate` raises it. Rust puts `local SCHEMA_KNOWN = <the newest schema that the calling pod
-- knows>` before this text.

-- The first character of a record after the scripts' prefix, as a pattern.
local KNOWN_FORMAT = '^[2-' .. SCHEMA_KNOWN .. ']'

-- The stored schema, as text. A pod that does not know it must change nothing.
local function known_schema(noted)
  local schema = noted or '2'
  if tonumber(schema) > SCHEMA_KNOWN then error(redis.error_reply('NEWER_SCHEMA ' .. schema)) end
  return schema
end

-- The partition's schema. Not needed by scripts that call current_epoch, which returns it.
local function check_schema(epoch)
  return known_schema(redis.call('HGET', epoch, 'schema'))
end
