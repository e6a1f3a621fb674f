-- What has another type than it should fails alone: a call that serves several lanes or messages goes
-- on with the others.

-- What a command answers; nil if it fails, such as at a key of another type. It must not be of
-- those that answer nil.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then return nil end
  return answer
end
