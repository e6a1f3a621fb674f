-- Counts the idempotency keys that a destination remembers within its window (a sliding window counter): all keys of
-- the current window, and as large a share of the previous window's keys as the sliding window still covers. So
-- counting costs nothing per key, and the count is right where keys arrive evenly.
--
-- The destination's field `remembered` is '<ms since 1970 at which the current window began> <keys in the previous
-- window> <keys in the current window>'.

local function counted_keys(kept, window_ms, now)
  local since, before, count = string.match(kept or '', '^(%d+) (%d+) (%d+)$')
  since, before, count = tonumber(since) or now, tonumber(before) or 0, tonumber(count) or 0
  local windows = math.floor((now - since) / window_ms)
  if windows > 0 then
    since, before, count = since + windows * window_ms, windows == 1 and count or 0, 0
  end
  -- The clock was set back.
  if windows < 0 then since = now end
  return {since = since, before = before, count = count}
end

local function remembered_keys(counted, window_ms, now)
  return math.ceil(counted.before * (1 - (now - counted.since) / window_ms)) + counted.count
end

local function text_of_counted(counted)
  return text(counted.since) .. ' ' .. text(counted.before) .. ' ' .. text(counted.count)
end
