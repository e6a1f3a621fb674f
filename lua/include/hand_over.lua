-- A hand-over: a wake-up with the record of a head that may leave now, so that the owner need not ask for it
-- (crates/store/src/hand_over.rs).

-- Longer records are not handed over: every sender gets each wake-up. Neither are more bytes than that in one call.
local HAND_OVER_SIZE_MAX = 2048
local HAND_OVERS_SIZE_MAX = 32768

-- The bytes that this call has handed over.
local handed_over = 0

-- '<destination>=<version>,<epoch>,<sequence>,<size of the record>:<record>', or nil if the record is long, or its body
-- stored apart. `record` is '' if it has to be read.
local function hand_over(destination, version, epoch, messages, sequence, record)
  if record == '' then record = try('HGET', messages, sequence) or '' end
  local size = #record
  if size == 0 or size > HAND_OVER_SIZE_MAX or bytes_apart(record) > 0 or not epoch then return nil end
  if handed_over + size > HAND_OVERS_SIZE_MAX then return nil end
  handed_over = handed_over + size
  return destination .. '=' .. version .. ',' .. epoch .. ',' .. sequence .. ',' .. text(size) .. ':' .. record
end

-- Wakes the owner of a destination that is one lane, whose head has become ready: with the head if no other message
-- is ready (with those, it leaves in a run), no withdrawal waits, and it goes to a receiver (consumers take it from an
-- offer). `ready`, `withdrawals` and `delivery` are fields of the destination, before the head was counted.
local function wake_for_head(channel, destination, version, ready, withdrawals, delivery, epoch, messages, sequence,
    record)
  local handed = (ready or '0') == '0' and (withdrawals or '0') == '0' and delivery ~= 'pull'
    and hand_over(destination, version, epoch, messages, sequence, record)
  if handed then wake(channel, handed, 'handed') else wake(channel, destination) end
end
