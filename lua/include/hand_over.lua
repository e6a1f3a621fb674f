-- A hand-over: a wake-up that contains the record of a head that may leave now, so that the owner does not need to
-- ask for it (crates/store/src/hand_over.rs).

-- The most bytes of one handed-over record, and of all handed-over records of a call: every sender receives each
-- wake-up.
local HAND_OVER_SIZE_MAX = 2048
local HAND_OVERS_SIZE_MAX = 32768

-- The bytes that this call has handed over.
local handed_over = 0

-- Returns '<destination>=<version>,<epoch>,<sequence>,<size of the record>:<record>'. Returns nil if the record is
-- too long or its body is stored out of line. If `record` is '', reads the record.
local function hand_over(destination, version, epoch, messages, sequence, record)
  if record == '' then record = redis.call('HGET', messages, sequence) or '' end
  local size = #record
  if size == 0 or size > HAND_OVER_SIZE_MAX or bytes_out_of_line(record) > 0 or not epoch then return nil end
  if handed_over + size > HAND_OVERS_SIZE_MAX then return nil end
  handed_over = handed_over + size
  return destination .. '=' .. version .. ',' .. epoch .. ',' .. sequence .. ',' .. text(size) .. ':' .. record
end

-- Wakes the owner of a destination that is one lane, after its head has become ready. The wake-up carries the head if
-- no other message is ready (otherwise the messages leave together, in a run), no withdrawal is pending, and the
-- destination has a receiver (consumers lease messages themselves). `ready`, `withdrawals` and `delivery` are
-- fields of the destination, read before this call added the head to `ready`.
local function wake_for_head(channel, destination, version, ready, withdrawals, delivery, epoch, messages, sequence,
    record)
  local handed = (ready or '0') == '0' and (withdrawals or '0') == '0' and delivery ~= 'pull'
    and hand_over(destination, version, epoch, messages, sequence, record)
  if handed then wake(channel, handed, 'handed') else wake(channel, destination) end
end
