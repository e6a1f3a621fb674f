-- Runs many blocks in one call. A block is one transition with its own keys and arguments. This file is the end of a
-- script that crates/store/src/scripts.rs composes. The script defines before it: the includes, `transitions` and
-- `lane_checks` (functions by number), `all_keys`, `all_args`, and `begin_block` (gives a transition its keys and
-- arguments). The includes hold the values that a call reads only once: the time, the server's identity, and the
-- epoch and owner keys of each partition.
--
-- The keys of the call are the keys of its blocks, in order. Its arguments are, per block: the shape '<number of the
-- transition> <number of keys> <number of arguments>', then the block's arguments. The call returns, per block in
-- order: 1 and the block's answer, or 0 and its error as a text. If the call returns nothing for the last blocks,
-- they have not run.

-- When the answers reach this size, the remaining blocks run in another call.
local ANSWERS_SIZE_MAX = 262144

-- The approximate size of an answer in bytes.
local function size_of(answer)
  local size = 16
  for i = 1, #answer do
    local one = answer[i]
    local kind = type(one)
    size = size + (kind == 'string' and #one + 16 or kind == 'table' and size_of(one) or 16)
  end
  return size
end

-- Runs the block that `begin_block` has prepared. An error ends only this block.
local function run_block(which)
  local has_ended, answer = pcall(transitions[which])
  if not has_ended then answer = error_of(answer, lane_checks[which]) end
  if type(answer) == 'table' and answer.err then return 0, answer.err end
  return 1, answer
end

-- Parsed shapes, by text: many blocks of a call have the same shape.
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
