//! The bugs, grouped by the rule that they break.

use super::Bug;

const fn bug(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Bug {
    Bug { name, file, right, wrong }
}

/// Every bug that can be planted in a script.
pub static BUGS: &[Bug] = &[
    // Order.
    bug(
        "releases ready messages without checking that each earlier message of the lane is ready too",
        "include/runs",
        "if count == pending or pending_upto(lane, '-inf', last) == count then",
        "if true then",
    ),
    bug(
        "releases messages behind those the sender already holds without checking that each earlier message is ready",
        "include/runs",
        "local is_prefix = pending_upto(lane, from, finished[found]) == found",
        "local is_prefix = true",
    ),
    bug(
        "settles all ready messages of a lane, also those that are not delivered yet",
        "include/runs",
        "'-inf', lane.upto, 'BYSCORE', 'LIMIT', '0', most)",
        "'-inf', '+inf', 'BYSCORE', 'LIMIT', '0', most)",
    ),
    bug(
        "releases a halted message",
        "release",
        "if halted then end_runs_before('ZMSCORE', key_halted) end",
        "",
    ),
    bug(
        "releases a message that has a pending withdrawal",
        "release",
        "  end_runs_before('HMGET', key_withdrawals)",
        "",
    ),
    bug(
        "a refused head does not wait for its backoff",
        "postpone",
        "now + tonumber(wait_ms)",
        "now",
    ),
    bug(
        "with serial processing, two messages of a lane can be claimed at once",
        "ingest",
        "elseif busy[lane] then",
        "elseif false then",
    ),
    bug(
        "a retried head gets a new sequence at the end of its lane",
        "retry_head",
        "to_front(place, {sequence})",
        "local last = text(redis.call('HINCRBY', key_destination, 'last', 1))
redis.call('HSET', key_messages, last, redis.call('HGET', key_messages, sequence))
redis.call('HDEL', key_messages, sequence)
redis.call('ZREM', key_in_progress, sequence)
redis.call('ZADD', key_in_progress, last, last)
to_front(place, {last})",
    ),
    bug(
        "a message whose lease expired goes to the back of the waiting list instead of the front",
        "reap",
        "if #back > 0 then to_front(place, back) end",
        "if #back > 0 then
  local push = place.ordering == 'none' and to_front
  if push then push(place, back) else
    table.sort(back, function(a, b) return tonumber(a) < tonumber(b) end)
    tell_claimers(place, redis.call('RPUSH', key_waiting, unpack(back)), #back)
  end
end",
    ),
    // Fences.
    bug(
        "does not check that the caller owns the partition",
        "release",
        "not owns(key_owner, token)",
        "false",
    ),
    bug(
        "does not check that the caller owns the partition",
        "postpone",
        "not owns(key_owner, token)",
        "false",
    ),
    bug(
        "takes every sender for the owner of a partition",
        "include/owner",
        "return string.sub(owner, 1, #token + 1) == token .. ' '",
        "return owner ~= ''",
    ),
    bug(
        "gives a partition to another sender while the owner's lease lasts",
        "acquire_partition",
        "token ~= own_token",
        "false",
    ),
    bug(
        "gives a partition to a sender that has waited, although the owner has renewed its lease since",
        "acquire_partition",
        "held ~= seen_owner",
        "seen_owner == ''",
    ),
    bug(
        "a renewal does not change what others see",
        "acquire_partition",
        "renewals + 1",
        "renewals + 0",
    ),
    bug("a call runs that comes too late", "include/call", "left_ms < 0 or", ""),
    bug(
        "accepts a result from a processor without a lease",
        "complete",
        "if held[i] and number ~= before",
        "if number ~= before",
    ),
    bug(
        "answers `ok` to a processor that extends a lease it no longer has",
        "extend",
        "if not held[i] then",
        "if false then",
    ),
    bug(
        "counts a failed attempt of a processor whose lease is gone",
        "fail",
        "if held[i] and not failed[sequence]",
        "if not failed[sequence]",
    ),
    bug(
        "puts a message back for a processor whose lease is gone",
        "requeue",
        "if held[i] and not requeued[sequence]",
        "if not requeued[sequence]",
    ),
    bug(
        "hands out messages without storing a lease",
        "claim",
        "if #leases > 0 then redis.call('ZADD', key_leases, unpack(leases)) end",
        "",
    ),
    bug(
        "takes more idempotency keys than a destination may remember",
        "ingest",
        "or index and counted and room_for_keys < 1 then",
        "then",
    ),
    bug(
        "counts only one idempotency key of a call",
        "ingest",
        "counted.count = counted.count + #remember",
        "counted.count = counted.count + 1",
    ),
    bug(
        "consumers get a head before its backoff is over",
        "consume",
        "elseif wait > 0 then",
        "elseif false then",
    ),
    bug(
        "a refusal behind more accepted messages than were read is forgotten",
        "include/pulled",
        "(next_one or not is_behind(lane, refused))",
        "true",
    ),
    // A full Redis.
    bug(
        "claims messages behind the head of their lane, although Redis has no memory left",
        "include/heads",
        "return not previous or redis.call('HEXISTS', messages, previous) == 0",
        "return true",
    ),
    bug(
        "claims messages whose delivery is paused, although Redis has no memory left",
        "include/reserve",
        "return string.find(paused or '', 'delivery', 1, true) end",
        "return false end",
    ),
    bug(
        "loses the waiting messages that are no heads when Redis has no memory left",
        "claim",
        "if #others > 0 then redis.call('LPUSH', key_waiting, unpack(others)) end",
        "",
    ),
    bug(
        "lets no head pass when the reserve of a full Redis is used up, although nothing else can leave",
        "include/reserve",
        "return heads_left >= 0",
        "return false",
    ),
    bug(
        "refuses to change a destination when Redis has no memory left",
        "define",
        "if IS_FULL and redis.call('HEXISTS', key_destination, 'version') == 0 then",
        "if IS_FULL then",
    ),
    bug(
        "forgets the earlier versions of a definition with each change",
        "define",
        "local kept, upto = definition[11] or '', 0",
        "local kept, upto = '', 0",
    ),
    bug(
        "keeps the definition of a removed destination under a version that it never had",
        "index",
        "text(noted_version) .. ' ' .. text(now)",
        "text(now) .. ' ' .. text(now)",
    ),
    bug("ends leases before their deadline", "reap", "score and score <= now", "score"),
    bug(
        "a stall counts against messages that were processed together",
        "reap",
        "if is_lone or attempts[7] == 1 and attempts[2] > 2 then",
        "if true then",
    ),
    bug(
        "suspects are never processed alone",
        "reap",
        "math.floor(math.min(together, SUSPECTS_MAX) / 2)",
        "together",
    ),
    bug(
        "leases any number of suspects together",
        "include/suspects",
        "count >= math.min(most, together)",
        "false",
    ),
    bug(
        "a claim forgets the messages that it passes",
        "claim",
        "redis.call('ZADD', key_delayed, unpack(due))",
        "",
    ),
    bug(
        "a message that is not the head of its lane is retried",
        "retry_head",
        "if not leads and not is_delayed and not is_held then",
        "if false then",
    ),
    bug(
        "a message that awaits its turn stays delayed when an operator wants it now",
        "retry_head",
        "  attempts[5] = ''\n",
        "",
    ),
    bug(
        "a rate counts no earlier claims",
        "include/rate",
        "left = burst - math.ceil(ahead / interval)",
        "left = burst",
    ),
    bug(
        "a claim on the fast path uses nothing of the rate",
        "claim",
        "if rate then use_rate(rate, key_destination, 1) end",
        "",
    ),
    bug(
        "after a step back of the clock, a rate allows nothing until the time before the step",
        "claim",
        "use_rate(rate, key_destination, 0)",
        "",
    ),
    bug(
        "a destination at its rate stays active, and all claim from it in vain",
        "claim",
        "elseif rate and rate.left < 1 then",
        "elseif false then",
    ),
    bug(
        "the rest of a destination has no end",
        "include/rate",
        "redis.call('ZADD', delayed, text(now_ms() + wait_ms), destination .. '/rate')",
        "",
    ),
    bug(
        "the end of a rest wakes no processor or worker",
        "reap",
        "if rest_is_over and redis.call('EXISTS', key_waiting) == 1 then tell_claimers(place, 1, 1) end",
        "",
    ),
    bug(
        "a repair takes a destination that rests for one that was forgotten",
        "repair_counters",
        "not rests and redis.call(",
        "redis.call(",
    ),
    bug(
        "a message stays a suspect although its worker lives",
        "fail",
        "attempts[7], attempts[11] = 0, asks_later and 1 or 0",
        "attempts[11] = asks_later and 1 or 0",
    ),
    bug(
        "extends a lease however long its attempt has lasted",
        "extend",
        "elseif is_over(extension) then",
        "elseif false then",
    ),
    bug(
        "ends an attempt that stored a checkpoint in time",
        "extend",
        "return tonumber(attempts_of(key_attempts, extension.sequence)[9]) <= since",
        "return true",
    ),
    bug(
        "does not note when a checkpoint was stored",
        "extend",
        "attempts[3], attempts[9] = extension.checkpoint, now",
        "attempts[3] = extension.checkpoint",
    ),
    bug(
        "a request to have a message later counts as a failed attempt",
        "fail",
        "local asks_later = failure.is_later == '1'",
        "local asks_later = false",
    ),
    bug(
        "counts the last attempt of a message, and does not let it leave",
        "fail",
        "  for _, failure in ipairs(leaving) do",
        "  for _, failure in ipairs({}) do",
    ),
    bug(
        "a message halts after its last attempt, and leaves only with another call",
        "fail",
        "if failure.how == '' or",
        "if true or",
    ),
    bug(
        "a message leaves after its last attempt by a definition that no longer applies",
        "fail",
        "not is_current or",
        "",
    ),
    bug(
        "more messages leave after their last attempts than dead letters may be stored",
        "fail",
        "failure.how == 's' and room <= 0",
        "false",
    ),
    bug(
        "a token of another lane lets a message leave that lane",
        "fail",
        "return redis.call('ZSCORE', lanes[tonumber(failure.lane)].in_progress, failure.sequence)",
        "return true",
    ),
    bug(
        "keeps results of a destination without limit",
        "complete",
        "own + size <= RESULTS_BYTES_MAX and",
        "",
    ),
    bug(
        "keeps results of all destinations without limit",
        "complete",
        "and all + size <= ALL_RESULTS_BYTES_MAX then",
        "then",
    ),
    bug(
        "keeps the result of an attempt whose lease has ended",
        "complete",
        "local sequence, size = done_as[tonumber(one.of)], #one.value",
        "local sequence, size = completions[tonumber(one.of)].sequence, #one.value",
    ),
    bug(
        "after a stall, a message still seems to wait because its worker asked for that",
        "reap",
        "attempts[2], attempts[11] = attempts[2] + 1, 0",
        "attempts[2] = attempts[2] + 1",
    ),
    // Epochs.
    bug(
        "keeps the epoch after a failover",
        "include/epoch",
        "math.max(math.max(birth, seen, carried) + 1, now)",
        "(tonumber(noted[2]) or now)",
    ),
    bug(
        "after a failover, adds 1 to the stored epoch, although a pod has seen a higher one",
        "include/epoch",
        "math.max(math.max(birth, seen, carried) + 1, now)",
        "(tonumber(noted[2]) or 0) + 1",
    ),
    bug(
        "stamps messages for a caller that knows an old epoch",
        "include/arrivals",
        "epoch ~= message_epoch + 0",
        "false",
    ),
    bug(
        "releases messages to a sender that knows an old epoch",
        "release",
        "epoch ~= owner_epoch + 0",
        "false",
    ),
    bug(
        "starts no takeover wait after a failover",
        "include/epoch",
        "math.max(lease_ms, tonumber(noted[4]) or 0)",
        "0",
    ),
    bug(
        "releases messages during the takeover wait",
        "release",
        "takeover_wait > 0 then",
        "false then",
    ),
    bug(
        "a vouch for an old epoch ends the takeover wait",
        "resign_partition",
        "wait > 0 and vouched_epoch == text(epoch)",
        "wait > 0 and vouched_epoch ~= ''",
    ),
    bug(
        "the takeover wait ends when the stored owner renews its lease",
        "acquire_partition",
        "local epoch, wait = current_epoch(key_epoch, now_ms(), seen_epoch)",
        "local epoch, wait = current_epoch(key_epoch, now_ms(), seen_epoch)
if token == own_token and wait > 0 then
  redis.call('HSET', key_epoch, 'takeover_wait_ms', '0')
  wait = 0
end",
    ),
    bug(
        "the removal of a destination stores no epoch",
        "forget_destination",
        "'removed_epoch', at_least(removed[1], carried),",
        "",
    ),
    bug(
        "the removal stores the partition's epoch, although messages of the destination had a higher one",
        "forget_destination",
        "math.max(epoch, tonumber(definition[2]) or 0)",
        "epoch",
    ),
    bug(
        "a destination that is created again starts in an epoch that was used before",
        "include/epoch",
        "math.max(epoch, (tonumber(noted[6]) or 0) + 1)",
        "epoch",
    ),
    bug(
        "accepts a call that was meant for a removed destination of the same name",
        "release",
        "definition[1] ~= version",
        "false",
    ),
    bug(
        "accepts a call that was meant for a removed destination of the same name",
        "postpone",
        "definition[1] ~= version",
        "false",
    ),
    bug(
        "accepts a call that was meant for a removed destination of the same name",
        "halt",
        "definition[1] ~= version",
        "false",
    ),
    bug(
        "redrives a dead letter of a removed destination of the same name",
        "ingest",
        "tonumber(letter_epoch) < born",
        "false",
    ),
    // Calls that must take effect only once.
    bug(
        "does not keep the answer to a call, so a repeated call runs twice",
        "include/call",
        "redis.call('SET', key, cmsgpack.pack({number, answer}), 'PXAT', text(math.ceil(number / 1000)))",
        "",
    ),
    bug(
        "runs a call that arrives after a later call of the same caller",
        "include/call",
        "if call[1] > number then",
        "if false then",
    ),
    bug(
        "does not store idempotency keys",
        "ingest",
        "remember[#remember + 1] = {index, math.max(0, (due or 0) - now)}",
        "",
    ),
    bug(
        "reports `duplicate` for another body under a used idempotency key",
        "ingest",
        "is_same and 'duplicate' or 'conflict'",
        "'duplicate'",
    ),
    // Lost or stuck messages.
    bug(
        "removes a withdrawn message from its lane instead of leaving a tombstone",
        "include/tombstones",
        "redis.call('HSET', place.messages, sequence, tombstone_of(one.how, one.record))",
        "redis.call('HDEL', place.messages, sequence)
  redis.call('ZREM', lane.in_progress, sequence)",
    ),
    bug(
        "withdraws a message at once although a sender may be delivering it",
        "withdraw",
        "local state = no_sender_delivers and (by_consumer(lane, sequence) or 'ready') or 'in_use'",
        "local state = by_consumer(lane, sequence) or 'ready'",
    ),
    bug(
        "adds no hint and publishes no wake-up when a head becomes ready",
        "complete",
        "if releasable then",
        "if false then",
    ),
    bug(
        "adds no hint for processors when a destination gets its first waiting message",
        "include/waiting",
        "redis.call('ZADD', active_of(place), '0', place.destination)",
        "",
    ),
    bug(
        "settles one message more than was delivered",
        "release",
        "settles = settles or lane.upto ~= '0'",
        "lane.upto = text(tonumber(lane.upto) + 1)
  settles = settles or lane.upto ~= '0'",
    ),
    bug(
        "settles one message less than was delivered",
        "release",
        "settles = settles or lane.upto ~= '0'",
        "lane.upto = text(math.max(0, tonumber(lane.upto) - 1))
  settles = settles or lane.upto ~= '0'",
    ),
    bug(
        "a head that becomes ready gets the time as its hint",
        "complete",
        "redis.call('ZADD', key_releasable, '0', destination)",
        "redis.call('ZADD', key_releasable, now_text(), destination)",
    ),
    bug(
        "a lane whose head becomes ready gets the time as its hint",
        "complete",
        "add(heads_ready, of_lane[1], lanes[lane].key)",
        "add(heads_ready, now_text(), lanes[lane].key)",
    ),
    bug(
        "does not tell the owner that there is a withdrawal",
        "withdraw",
        "redis.call('ZADD', key_withdrawing, '0', destination)",
        "",
    ),
    bug(
        "goes on telling the owner of withdrawals that are carried out",
        "include/head",
        "if redis.call('EXISTS', withdrawals) == 0 then redis.call('ZREM', withdrawing, destination) end",
        "",
    ),
    bug(
        "does not return the pending withdrawals",
        "release",
        "if has_withdrawals then answers[1] =",
        "if false then answers[1] =",
    ),
    bug(
        "a retried head waits until all other lanes had their turn",
        "retry_head",
        "may_leave(key_releasable, key_lanes, destination, ordering, lane, '0')",
        "may_leave(key_releasable, key_lanes, destination, ordering, lane, sequence)",
    ),
    bug(
        "a lane whose backoff is over stays before all others for ever",
        "release",
        "(lane.most == 0 or #lane.run > 0 and is_first(lane.hint))",
        "lane.most == 0",
    ),
    bug(
        "keeps the hint of a lane that is empty",
        "release",
        "if #empty > 0 then redis.call('ZREM', ordering == 'destination' and key_releasable or key_lanes, unpack(empty)) end",
        "",
    ),
    // Changes that pods follow.
    bug(
        "a removed name is missing in the list of changes",
        "include/changes",
        "redis.call('ZADD', changes, revision, name)",
        "if entry then redis.call('ZADD', changes, revision, name) end",
    ),
    bug(
        "forgets an old removal without recording that it did",
        "include/changes",
        "redis.call('HSET', index, '*floor', oldest[2])",
        "",
    ),
    // Gaps.
    bug(
        "treats an ordering key whose last sequence was forgotten as a new key",
        "release",
        "if is_forgotten then redis.call('HDEL', key_destination, 'all_keys_known') end",
        "",
    ),
    bug(
        "fails if the Redis user may not publish, after it has written",
        "include/wake",
        "redis.pcall('SPUBLISH', channel, destination)",
        "redis.call('SPUBLISH', channel, destination)",
    ),
    // Bounds and times.
    bug(
        "returns the whole run behind a head that was refused before, on each attempt",
        "release",
        "if attempts_kept and not is_pulled then shorten_refused(attempts) end",
        "",
    ),
    bug("a delayed message can be claimed at once", "ingest", "due and due > now", "false"),
    bug(
        "ignores the limits of the backlog",
        "ingest",
        "room <= 0 or room_bytes < accounted_bytes and",
        "false and",
    ),
    bug(
        "does not subtract delivered messages from the pending bytes",
        "release",
        "counted(definition[7], -bytes)",
        "counted(definition[7], 0)",
    ),
    bug("does not count failed attempts", "fail", "attempts[count] = attempts[count] + 1", ""),
    bug(
        "keeps the first errors of a message, and not the last ones",
        "include/attempts",
        "attempts[1] + attempts[2] > 5 and 5 or 6",
        "2",
    ),
    bug(
        "retries a failed attempt at once, without its backoff",
        "fail",
        "elseif wait_ms <= 0 then",
        "elseif true then",
    ),
    // Damage and its repair; bodies out of line; dead letters.
    bug(
        "fails for a message whose record is missing",
        "withdraw",
        "redis.call('HGET', key_messages, sequence) or ''",
        "redis.call('HGET', key_messages, sequence)",
    ),
    bug(
        "ends a run before a message whose record is missing, so the sender never learns of it",
        "release",
        "local record = record_of(before + i) or ''",
        "local record = record_of(before + i)
        if not record then break end",
    ),
    bug(
        "halts a damaged message while a processor has a lease on it",
        "repair",
        " and message.is_leased ~= '1' then",
        " then",
    ),
    bug(
        "puts a message back into the waiting list while a processor has a lease on it",
        "repair",
        " or message.is_leased == '1') then",
        ") then",
    ),
    bug(
        "halts a damaged message that is halted",
        "repair",
        "if not at.halted and not is_awaiting and message.is_leased ~= '1' then",
        "if not is_awaiting then",
    ),
    bug(
        "adds no hint for a ready head that has a pending withdrawal",
        "repair",
        "if not at.ready or at.halted or",
        "if not at.ready or at.halted or redis.call('HEXISTS', key_withdrawals, sequence) == 1 or",
    ),
    bug("a dry run changes data", "repair", "repairs == '1'", "true"),
    bug(
        "has a message wait that awaits its turn",
        "repair",
        "elseif not is_awaiting or",
        "elseif true or",
    ),
    bug(
        "does not delete a long body when its message leaves",
        "include/settle",
        "if #removed > 0 then redis.call('HDEL', bodies, unpack(removed)) end",
        "",
    ),
    bug(
        "ignores the maximum number of dead letters",
        "withdraw",
        "how == 's' and room <= 0 and 'full' or",
        "",
    ),
    bug("removes dead letters before they expire", "expire", "'-inf', last,", "'-inf', '+inf',"),
    bug(
        "does not delete the long body of a dead letter that is removed",
        "include/dead_letters",
        "remove_bodies(bodies, sequences)",
        "",
    ),
    // Many blocks in one call.
    bug(
        "a call of many blocks wakes the processors for the first of them only",
        "include/wake",
        "names[#names + 1] = destination",
        "",
    ),
    bug(
        "an error of one block ends the others",
        "include/blocks",
        "if type(answer) == 'table' and answer.err then return 0, answer.err end",
        "if type(answer) == 'table' and answer.err then error(answer) end",
    ),
    bug(
        "gives one block the answer of another",
        "include/blocks",
        "answers[answered + 1], answers[answered + 2] = is_answer, answer",
        "table.insert(answers, 1, answer) table.insert(answers, 1, is_answer)",
    ),
    bug(
        "a block reads the arguments of the block before it",
        "include/blocks",
        "args = {unpack(all_args, arg_at + 2, arg_at + 1 + arg_count)}",
        "args = args and #args == arg_count and args or {unpack(all_args, arg_at + 2, arg_at + 1 + arg_count)}",
    ),
    bug(
        "checks the epoch of one partition for the blocks of all",
        "include/schema",
        "local noted = partitions[epoch]",
        "local noted = partitions[next(partitions) or epoch]",
    ),
    bug(
        "takes the owner of one partition for the owner of all",
        "include/owner",
        "local owner = owners[key] or",
        "local owner = owners[next(owners) or key] or",
    ),
    // The fast paths of quiet destinations.
    bug(
        "the fast path of release hands out ready messages although an earlier one is not ready",
        "release_fast",
        "redis.call('ZCARD', key_in_progress) == count",
        "true",
    ),
    bug(
        "the fast paths of release keep the records of settled messages",
        "include/release_fast",
        "  redis.call('HDEL', key_messages, unpack(sequences))",
        "",
    ),
    bug(
        "the fast path of complete ignores that the lease is gone, and earlier attempts",
        "complete_fast",
        "not redis.call('ZSCORE', key_leases, member) or redis.call('HLEN', key_attempts) > 0",
        "false",
    ),
    bug(
        "the fast path of claim leaves the message waiting",
        "include/claim_fast",
        "redis.call('LPOP', waiting)",
        "",
    ),
    bug(
        "the fast path of ingest does not note that messages wait",
        "ingest_fast",
        "  redis.call('ZADD', key_active, '0', destination)",
        "",
    ),
    // Messages that are leased on arrival.
    bug(
        "a message that is leased on arrival waits, too",
        "ingest_fast",
        "  return keep(key_call, number, {first, leased})",
        "  keep(key_call, number, {first, leased})",
    ),
    bug(
        "a message is leased on arrival although an older one waits",
        "include/on_arrival",
        "redis.call(ordering == 'none' and 'ZCARD' or 'LLEN', waiting) == 0",
        "true",
    ),
    bug(
        "a message is leased on arrival although processing is paused",
        "include/on_arrival",
        "not string.find(paused, 'processing', 1, true)",
        "true",
    ),
    bug(
        "a message that is leased on arrival has no lease that could end",
        "include/on_arrival",
        "redis.call('ZADD', leases, unpack(members))",
        "",
    ),
    bug(
        "the lease of a message that is leased on arrival is over at once",
        "ingest",
        "local deadline = text(now + lease_ms)",
        "local deadline = text(now)",
    ),
    bug(
        "two messages of a serial lane are leased on arrival",
        "ingest",
        "    busy[lane] = serial\n",
        "    busy[lane] = serial and not is_leased\n",
    ),
    bug(
        "a delayed message is leased on arrival",
        "ingest",
        "    if is_delayed then\n      delays",
        "    if is_delayed and not is_leased then\n      delays",
    ),
    bug(
        "a message that is leased on arrival does not say which one is before it",
        "ingest",
        "previous_of_leased[#leased] = sequence_before",
        "previous_of_leased[#leased] = ''",
    ),
    bug(
        "the fast paths of release do not see withdrawals and consumers",
        "include/release_fast",
        "if (definition[3] or '0') ~= '0' or definition[4] == 'pull' then",
        "if false then",
    ),
    bug(
        "the fast path of release does not see halted messages and earlier attempts",
        "release_fast",
        "if (definition[1] or '0') ~= '0' or redis.call('HLEN', key_attempts) > 0 then",
        "if false then",
    ),
    // Priorities.
    bug(
        "a priority has no effect",
        "include/waiting",
        "(9 - tonumber(priority)) * PRIORITY_STEP",
        "0",
    ),
    bug(
        "a low priority waits for ever",
        "include/waiting",
        "local PRIORITY_STEP = 262144",
        "local PRIORITY_STEP = 1000000000000",
    ),
    // The fast path of release without ordering.
    bug(
        "without ordering, the fast path of release hands out a message that is not ready, and settles one twice",
        "release_each_fast",
        "return has_each('ZMSCORE', key_ready, sequences) and",
        "return",
    ),
    bug(
        "without ordering, the fast path of release hands out a message before its backoff is over",
        "release_each_fast",
        "if not hints[i] or is_first(hints[i]) then return false end",
        "",
    ),
    bug(
        "without ordering, the fast path of release forgets earlier attempts at a message",
        "release_each_fast",
        "or attempts_kept and not has_none('HMGET', key_attempts, asked) then",
        "then",
    ),
    bug(
        "without ordering, the fast path of release forgets that other messages may leave",
        "release_each_fast",
        "move_hints(key_releasable, key_lanes, destination, 'none', {}, left)",
        "redis.call('ZREM', key_lanes, unpack(left))
redis.call('ZREM', key_releasable, destination)",
    ),
    bug(
        "a message of a destination that is being removed is handed over",
        "complete_fast",
        "if is_head and definition[4] and not definition[6] then",
        "if is_head then",
    ),
    bug(
        "a message of a destination with withdrawals is handed over",
        "include/hand_over",
        "(withdrawals or '0') == '0' and",
        "",
    ),
    bug(
        "a message that leaves as it came is not handed over",
        "include/hand_over",
        "if record == '' then record = redis.call('HGET', messages, sequence) or '' end",
        "",
    ),
    bug(
        "long records are handed over",
        "include/hand_over",
        "local HAND_OVER_SIZE_MAX = 2048",
        "local HAND_OVER_SIZE_MAX = 1000000",
    ),
    bug(
        "the first of several arrivals that need no processing is handed over without the others",
        "ingest_ready_fast",
        "if has_head and count == 1 then",
        "if has_head then",
    ),
    bug(
        "a head is handed over although another message is ready",
        "include/hand_over",
        "local handed = (ready or '0') == '0' and",
        "local handed =",
    ),
    bug(
        "the owner does not hear of a message that halts",
        "fail",
        "wake(key_wake_releasable, destination)",
        "",
    ),
    bug(
        "the owner does not hear of a message that halts with its lease",
        "reap",
        "wake(key_wake_releasable, destination)",
        "",
    ),
    bug(
        "the fast path of ingest wakes the sender of a lane whose head waits",
        "ingest_ready_fast",
        "if has_head and count == 1 then",
        "if count == 1 then",
    ),
    bug(
        "the fast path of ingest does not note that a lane may be released",
        "ingest_ready_fast",
        "if has_head then redis.call('ZADD', key_releasable, '0', destination) end",
        "",
    ),
    // Consumers.
    bug(
        "an acknowledgement with another secret is accepted",
        "acknowledge",
        "entry.secret == message.secret and entry.epoch == epoch and has_consumer(entry, now)",
        "entry.epoch == epoch and has_consumer(entry, now)",
    ),
    bug(
        "an expired lease of a consumer still accepts",
        "acknowledge",
        "entry.secret == message.secret and entry.epoch == epoch and has_consumer(entry, now)",
        "entry.secret == message.secret and entry.epoch == epoch",
    ),
    bug(
        "a lease of an earlier epoch still accepts",
        "acknowledge",
        "entry.secret == message.secret and entry.epoch == epoch and has_consumer(entry, now)",
        "entry.secret == message.secret and has_consumer(entry, now)",
    ),
    bug(
        "a repeated accept that counted is stale until the message is settled",
        "acknowledge",
        "elseif tonumber(sequence) <= entry.accepted then",
        "elseif false then",
    ),
    bug(
        "a refusal does not accept the messages before it",
        "acknowledge",
        "  accept_upto(entry, sequence - 1)\n",
        "",
    ),
    bug(
        "a lane that a consumer holds is leased to another one",
        "consume",
        "if has_consumer(entry, now) then",
        "if false then",
    ),
    bug(
        "a lane is leased again before its owner has decided about a refused message",
        "consume",
        "elseif entry.secret or entry.refusal then",
        "elseif entry.secret then",
    ),
    bug(
        "leases that Redis forgot are not waited for",
        "consume",
        "if from > now or string.find",
        "if string.find",
    ),
    bug(
        "consumers get a message that is to be withdrawn",
        "consume",
        "    if withdrawn[i] then return front, kept, true end\n",
        "",
    ),
    bug(
        "consumers get a halted message",
        "consume",
        "    if halted[i] then return front, kept end\n",
        "",
    ),
    bug(
        "consumers get a tombstone",
        "consume",
        "if not is_tombstone(record) then\n      if",
        "if true then\n      if",
    ),
    bug(
        "an accepted message is leased again until it is settled",
        "consume",
        "held_upto = text(entry.accepted),\n    holds_none = entry.accepted == 0,",
        "held_upto = '0',\n    holds_none = true,",
    ),
    bug(
        "after a lease that expired, as many messages are leased together again",
        "consume",
        "math.min(left, entry.most or left)",
        "left",
    ),
    bug(
        "a lane with suspects is leased together with others",
        "consume",
        "elseif entry.most and #leased > 0 then",
        "elseif false then",
    ),
    bug(
        "a lease that expired counts against the first of several messages",
        "include/consumers",
        "if left == 1 and not entry.is_shared then",
        "if true then",
    ),
    bug(
        "a lease that expired counts against a message although its consumer held other lanes",
        "include/consumers",
        "if left == 1 and not entry.is_shared then",
        "if left == 1 then",
    ),
    bug(
        "the owner forgets what was accepted before it is settled",
        "include/pulled",
        "is_settled = tonumber(lane.gone[#lane.gone]), accepted_of(lane, ordering) == 0",
        "is_settled = tonumber(lane.gone[#lane.gone]), true",
    ),
    bug(
        "the owner gets a message that no consumer has accepted",
        "include/pulled",
        "while run[n + 1] and tonumber(run[n + 1]) <= entry.accepted do n = n + 1 end",
        "while run[n + 1] and tonumber(run[n + 1]) <= entry.accepted + 3 do n = n + 1 end",
    ),
    bug(
        "a refusal counts against the message behind the one that was refused",
        "include/pulled",
        "if refused and refused ~= next_one and (next_one or not is_behind(lane, refused)) then",
        "if false then",
    ),
    bug(
        "a refused message stays refused after the owner has decided",
        "include/consumers",
        "  entry.refusal = nil\n  keep_lease",
        "  keep_lease",
    ),
    bug(
        "a message that a consumer holds becomes a tombstone",
        "withdraw",
        "  if has_consumer(entry, now) and lease_covers(entry, sequence) then return 'held' end\n",
        "",
    ),
    bug(
        "a message that a consumer has accepted becomes a tombstone",
        "withdraw",
        "  if tonumber(sequence) <= entry.accepted then return 'accepted' end\n",
        "",
    ),
    bug(
        "the last attempt overrides a pending withdrawal",
        "fail",
        "\n    and redis.call('HEXISTS', key_withdrawals, failure.sequence) == 0",
        "",
    ),
    bug(
        "on_exhausted overrides a pending withdrawal of a halted message",
        "withdraw",
        "elseif by_policy and redis.call('HEXISTS', key_withdrawals, sequence) == 1 then",
        "elseif false then",
    ),
    // Sources.
    bug(
        "moves the mark of a source before its message is stored",
        "ingest",
        "  if source then why, mark = refused_by_source(source) end",
        "  if source then why, mark = refused_by_source(source) end\n  if source and not why then move_mark(source) end",
    ),
    bug(
        "forgets the marks of sources when the call ends",
        "ingest",
        "store_marks()\nreturn keep",
        "return keep",
    ),
    bug(
        "a skipped position does not move the mark of its source",
        "ingest",
        "source.skips == '1' and not why then\n    move_mark(source)",
        "source.skips == '1' and not why then",
    ),
    bug(
        "a repeat under an idempotency key does not move the mark of its source",
        "ingest",
        "    if source and is_same and not why then move_mark(source) end",
        "    if false then move_mark(source) end",
    ),
    bug(
        "a repeat under an idempotency key moves the mark of its source back",
        "ingest",
        "    if source and is_same and not why then move_mark(source) end",
        "    if source and is_same then move_mark(source) end",
    ),
    bug(
        "moves the mark of a source past a message that found the backlog full",
        "ingest",
        "if source and not why and is_full then",
        "if false then",
    ),
    bug(
        "compares bodies where the idempotency key alone decides",
        "ingest",
        "compare == 'key' or before[3]",
        "before[3]",
    ),
    bug(
        "stores the message at the mark of its source again",
        "include/sources",
        "return #one <= #other",
        "return #one < #other",
    ),
    bug(
        "compares positions in a source by their length",
        "include/sources",
        "if a ~= b then return a < b end",
        "if a ~= b then return #one <= #other end",
    ),
    bug(
        "stores a message that does not follow the mark of its source",
        "include/sources",
        "    if source.after ~= '' and source.after ~= mark then return 'source_gap', mark or '' end\n",
        "",
    ),
    bug(
        "stores a message that names the one before it, of a source that has no mark",
        "include/sources",
        "source.after ~= '' and source.after ~= mark",
        "source.after ~= '' and mark and source.after ~= mark",
    ),
    bug(
        "keeps the marks of more sources than it may",
        "include/sources",
        "if count >= sources_max then",
        "if false then",
    ),
    bug(
        "counts the sources that come in one call as one",
        "include/sources",
        "    if not marks[source.name] and count then count = count + 1 end\n",
        "",
    ),
    bug(
        "a removed destination leaves the marks of its sources",
        "forget_destination",
        "key_consumer_lease_ends, key_sources)",
        "key_consumer_lease_ends)",
    ),
];
