-- Checks the types of a call's keys before the transition begins. Redis does not roll a script back, so a script must
-- not find a key with the wrong type after it has written. If a key of a destination has the wrong type, the
-- destination halts: its hash names the key in the field `wrong_type`, and all calls for messages of the destination
-- fail until the key has the right type again. Rust generates the checks from the contract of the transition
-- (crates/store/src/contract.rs). Scripts that must run on a halted destination, such as repairs, check the keys that
-- they need themselves.

-- Commands that are cheap, and fail if the key has another type.
local COUNTS = {hash = 'HLEN', list = 'LLEN', set = 'SCARD', string = 'STRLEN', zset = 'ZCARD'}

-- The keys that this call has checked. Several of its blocks (blocks.lua) may use the same key.
local has_type = {}

-- The hash of the block's destination, if the destination exists; and the type of its key `waiting`.
local hash_of_block, waiting_type

-- Returns the error WRONG_TYPE if a key has another type, otherwise nil.
local function check_type(kind, key)
  if has_type[key] then return nil end
  if kind == 'waiting' then kind = waiting_type end
  local count = redis.pcall(COUNTS[kind], key)
  if type(count) == 'number' then
    has_type[key] = true
    return nil
  end
  if not string.find(count.err, '^WRONGTYPE') then return count end
  if hash_of_block then redis.call('HSET', hash_of_block, 'wrong_type', kind .. ' ' .. key) end
  return redis.error_reply('WRONG_TYPE ' .. redis.call('TYPE', key)['ok'] .. ' ' .. kind .. ' ' .. key)
end

-- Checks the hash of a destination. If a key has halted the destination, checks that key again.
local function check_destination(hash)
  hash_of_block = nil
  local wrong = check_type('hash', hash)
  if wrong then return wrong end
  local definition = redis.call('HMGET', hash, 'version', 'ordering', 'wrong_type')
  hash_of_block, waiting_type = definition[1] and hash, definition[2] == 'none' and 'zset' or 'list'
  if not definition[3] then return nil end
  local kind, key = string.match(definition[3], '^(%a+) (.*)$')
  wrong = COUNTS[kind] and check_type(kind, key)
  if not wrong then redis.call('HDEL', hash, 'wrong_type') end
  return wrong or nil
end

-- Returns the error that a transition has raised. If a key of a lane has the wrong type, `check_lanes` finds the key,
-- and the error names it.
local function error_of(problem, check_lanes)
  if type(problem) ~= 'table' then problem = redis.error_reply(tostring(problem)) end
  local is_wrong_type = check_lanes and string.find(problem.err, '^WRONGTYPE')
  return is_wrong_type and check_lanes() or problem
end

-- Runs a transition that reads the keys of its lanes before it writes.
local function run_checked(transition, check_lanes)
  local has_ended, answer = pcall(transition)
  return has_ended and answer or error_of(answer, check_lanes)
end
