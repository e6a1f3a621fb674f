-- The marks of sources: the position of the last message that was stored from each source. Positions are compared
-- byte by byte.

-- True if position `one` is not after position `other`. (Lua's own `<` compares by the locale of the server.)
local function is_upto(one, other)
  local shorter, from = math.min(#one, #other), 1
  -- Neighbouring positions differ near their ends, so compare eight bytes at a time first.
  while from <= shorter and string.sub(one, from, from + 7) == string.sub(other, from, from + 7) do from = from + 8 end
  for i = from, shorter do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one <= #other
end

-- Returns three functions. The first returns why a message of this source is not stored, and the mark that its
-- producer needs; nil if the message may be stored. The second makes the message's position the new mark. The third
-- writes the marks.
local function marks_of(key_sources, sources_max)
  local marks, count, moved = {}, nil, {}
  local function read_mark(name)
    if marks[name] == nil then marks[name] = redis.call('HGET', key_sources, name) end
    return marks[name]
  end
  local function refuse_source(source)
    local mark = read_mark(source.name)
    if mark and is_upto(source.position, mark) then return 'duplicate', '' end
    if source.after ~= '' and source.after ~= mark then return 'source_gap', mark or '' end
    if mark then return nil end
    count = count or redis.call('HLEN', key_sources)
    if count >= sources_max then return 'sources_full', '' end
  end
  local function move_source(source)
    if not marks[source.name] and count then count = count + 1 end
    marks[source.name] = source.position
    moved[source.name] = source.position
  end
  local function store_sources()
    for name, position in pairs(moved) do redis.call('HSET', key_sources, name, position) end
  end
  return refuse_source, move_source, store_sources
end
