-- The length of a record's body that is stored out of line; 0 if the body is in the record.
local function bytes_out_of_line(record)
  if string.byte(record) ~= 66 then return 0 end
  return tonumber(string.match(record, '^B(%d+);')) or 0
end
