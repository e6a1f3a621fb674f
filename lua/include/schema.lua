-- The schema of what a partition holds: which formats its records may have, and whatever else a
-- version of Reseq may store in another way. `reseq migrate` raises it. Before this text stands
-- `local SCHEMA_KNOWN = <the newest schema that the calling pod knows>`.

-- What a record begins with, as a pattern, behind what scripts put before it.
local KNOWN_FORMAT = '^[1-' .. SCHEMA_KNOWN .. ']'

-- Returns the partition's schema, as text. A pod that does not know it must change nothing.
local function check_schema(epoch)
  local schema = redis.call('HGET', epoch, 'schema') or '1'
  if tonumber(schema) > SCHEMA_KNOWN then error(redis.error_reply('NEWER_SCHEMA ' .. schema)) end
  return schema
end
