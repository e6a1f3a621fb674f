-- Where the values of a record's MessagePack header end. cmsgpack does not know byte strings, which
-- ids and bodies are written as.

-- What follows the first byte: that many bytes of length, and what the length counts.
local LENGTHS = {
  [0xc4] = {1, 'bytes'}, [0xc5] = {2, 'bytes'}, [0xc6] = {4, 'bytes'},
  [0xd9] = {1, 'bytes'}, [0xda] = {2, 'bytes'}, [0xdb] = {4, 'bytes'},
  [0xdc] = {2, 'values'}, [0xdd] = {4, 'values'}, [0xde] = {2, 'pairs'}, [0xdf] = {4, 'pairs'},
}
-- Numbers: their bytes behind the first.
local NUMBERS = {
  [0xca] = 4, [0xcb] = 8, [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8, [0xd0] = 1, [0xd1] = 2,
  [0xd2] = 4, [0xd3] = 8,
}

-- How many values the value that begins at `at` holds, and where they begin: behind it, if none.
local function open_value(record, at)
  local first = string.byte(record, at)
  local length, counts = 0, 'bytes'
  at = at + 1
  if first >= 0x80 and first < 0x90 then
    length, counts = first - 0x80, 'pairs'
  elseif first >= 0x90 and first < 0xa0 then
    length, counts = first - 0x90, 'values'
  elseif first >= 0xa0 and first < 0xc0 then
    length = first - 0xa0
  elseif LENGTHS[first] then
    local size = LENGTHS[first][1]
    for i = at, at + size - 1 do length = length * 256 + string.byte(record, i) end
    at, counts = at + size, LENGTHS[first][2]
  else
    length = NUMBERS[first] or 0
  end
  if counts == 'bytes' then return 0, at + length end
  return counts == 'pairs' and 2 * length or length, at
end

-- Where `count` values that begin at `at` end: the place behind the last.
local function behind_values(record, at, count)
  while count > 0 do
    local inside
    inside, at = open_value(record, at)
    count = count - 1 + inside
  end
  return at
end

-- Where the header that begins at `at` ends, and for how many bytes the message counts.
local function read_header(record, at)
  local fields, inside = open_value(record, at)
  local more = behind_values(record, inside, 6)
  local header_end = behind_values(record, more, fields - 6)
  if string.byte(record, more) ~= 0xc0 then
    local _, charge_at = open_value(record, more)
    if string.byte(record, charge_at) ~= 0xc0 then
      local _, charge = cmsgpack.unpack_one(record, charge_at - 1)
      return header_end, charge
    end
  end
  return header_end, #record - header_end + 1
end
