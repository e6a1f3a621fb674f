-- Runs many blocks in one call. A block is one transition with keys and arguments of its own. This is the end of a
-- script that crates/store/src/scripts.rs composes: before it are the includes, `transitions` (functions, by number) and
-- `lacks_rights`, which checks once a call whether the user may do what a transition needs; `all_keys`, `all_args` and
-- `begin_block`, which gives a transition its own. What they read once a call (the time, the server's identity, the
-- keys epoch and owner of a partition) is in the includes.
--
-- The keys of the call are those of the blocks, in order; its arguments, per block: its shape '<number of its
-- transition> <how many keys it has> <how many arguments>', the arguments. Returns, per block in order: 1 and its answer, or 0 and its
-- error as a text. Blocks at the end for which nothing is returned have not run.

-- When the answers have this size, the blocks that are left run in another call.
local ANSWERS_SIZE_MAX = 262144

-- About the bytes of an answer.
local function size_of(answer)
  local size = 16
  for i = 1, #answer do
    local one = answer[i]
    local kind = type(one)
    size = size + (kind == 'string' and #one + 16 or kind == 'table' and size_of(one) or 16)
  end
  return size
end

-- The text of an error that was returned or raised.
local function error_text(problem)
  if type(problem) == 'table' then problem = problem.err end
  return tostring(problem)
end

-- The answer of the block that has begun. An error ends only this block.
local function run_block(which)
  local lacking = lacks_rights(which)
  if lacking then return 0, error_text(lacking) end
  local has_ended, answer = pcall(transitions[which])
  if not has_ended then return 0, error_text(answer) end
  if type(answer) == 'table' and answer.err then return 0, error_text(answer) end
  return 1, answer
end

-- Shapes that were parsed. Blocks of a call often have the same.
local shapes = {}

local function parse_shape(text)
  local which, key_count, arg_count = string.match(text, '^(%d+) (%d+) (%d+)$')
  local shape = {which, tonumber(key_count), tonumber(arg_count)}
  shapes[text] = shape
  return shape
end

local answers, answers_size, answered, key_at, arg_at, last_arg = {}, 0, 0, 0, 0, #all_args
wakes_of_call = {}
local args
while arg_at < last_arg and answers_size <= ANSWERS_SIZE_MAX do
  local text = all_args[arg_at + 1]
  local shape = shapes[text] or parse_shape(text)
  local key_count, arg_count = shape[2], shape[3]
  args = {unpack(all_args, arg_at + 2, arg_at + 1 + arg_count)}
  begin_block({unpack(all_keys, key_at + 1, key_at + key_count)}, args)
  key_at, arg_at = key_at + key_count, arg_at + 1 + arg_count
  local is_answer, answer = run_block(shape[1])
  answers[answered + 1], answers[answered + 2] = is_answer, answer
  answered = answered + 2
  if type(answer) == 'table' then answers_size = answers_size + size_of(answer) end
end
publish_wakes()
return answers
