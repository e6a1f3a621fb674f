-- The schema of what a partition holds: which formats its records may have, and whatever else a
-- version of Reseq may store in another way. `reseq migrate` raises it. Before this text stands
-- `local SCHEMA_KNOWN = <the newest schema that the calling pod knows>`.

-- What a record begins with, as a pattern, behind what scripts put before it.
local KNOWN_FORMAT = '^[2-' .. SCHEMA_KNOWN .. ']'

-- The schema that is noted, as text. A pod that does not know it must change nothing.
local function known_schema(noted)
  local schema = noted or '2'
  if tonumber(schema) > SCHEMA_KNOWN then error(redis.error_reply('NEWER_SCHEMA ' .. schema)) end
  return schema
end

-- The partition's schema. Where the epoch is asked for, this is told with it.
local function check_schema(epoch)
  return known_schema(redis.call('HGET', epoch, 'schema'))
end
