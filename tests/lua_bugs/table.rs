//! The bugs, by what they break.

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
pub const BUGS: [Bug; 63] = [
    // Order.
    bug(
        "release compares no heads",
        "release",
        "if count == pending or pending_upto(lane, '-inf', last) == count then",
        "if true then",
    ),
    bug(
        "what is behind a gap is released behind what is in hand",
        "release",
        "local is_prefix = pending_upto(lane, from, finished[found]) == found",
        "local is_prefix = true",
    ),
    bug(
        "what has not left yet is settled",
        "release",
        "'-inf', lane.upto, 'BYSCORE', 'LIMIT', '0', most)",
        "'-inf', '+inf', 'BYSCORE', 'LIMIT', '0', most)",
    ),
    bug(
        "a halted head is released",
        "release",
        "if halted then end_runs_before('ZMSCORE', KEYS[12]) end",
        "",
    ),
    bug(
        "what has a withdrawal is released",
        "release",
        "if withdrawals > 0 then end_runs_before('HMGET', KEYS[8]) end",
        "",
    ),
    bug("a postponed head may leave at once", "postpone", "now + tonumber(ARGV[9])", "now"),
    bug("a serial lane claims two", "ingest", "elseif busy[lane] then", "elseif false then"),
    bug(
        "a retry in place is stamped at the end",
        "retry_head",
        "to_front(place, {sequence}, now)",
        "local last = text(redis.call('HINCRBY', KEYS[1], 'last', 1))
redis.call('HSET', KEYS[3], last, redis.call('HGET', KEYS[3], sequence))
redis.call('HDEL', KEYS[3], sequence)
redis.call('ZREM', KEYS[13], sequence)
redis.call('ZADD', KEYS[13], last, last)
to_front(place, {last}, now)",
    ),
    bug(
        "what is reaped goes behind the others",
        "reap",
        "if #back > 0 then to_front(place, back, now) end",
        "if #back > 0 then
  local push = place.ordering == 'none' and to_front
  if push then push(place, back, now) else
    table.sort(back, function(a, b) return tonumber(a) < tonumber(b) end)
    tell_claimers(place, redis.call('RPUSH', KEYS[2], unpack(back)), #back, now)
  end
end",
    ),
    // Fences.
    bug("release asks for no owner", "release", "not owns(KEYS[2], ARGV[1], now)", "false"),
    bug("postpone asks for no owner", "postpone", "not owns(KEYS[2], ARGV[1], now)", "false"),
    bug("an owner's lease never ends", "include/owner", "tonumber(deadline) > now", "true"),
    bug("a partition is taken from its owner", "acquire_partition", "held ~= ARGV[1]", "false"),
    bug(
        "complete looks for no lease",
        "complete",
        "if held[i] and number ~= before",
        "if number ~= before",
    ),
    bug("a stale lease is extended", "extend", "if held[i] then", "if true then"),
    bug(
        "a stale lease fails its message",
        "fail",
        "if held[i] and not failed[sequence]",
        "if not failed[sequence]",
    ),
    bug(
        "a stale lease hands its message back",
        "requeue",
        "if held[i] and not requeued[sequence]",
        "if not requeued[sequence]",
    ),
    bug(
        "claim adds no lease",
        "claim",
        "if #leases > 0 then redis.call('ZADD', KEYS[6], unpack(leases)) end",
        "",
    ),
    bug("a lease is reaped before its end", "reap", "tonumber(score) <= now", "true"),
    // Epochs.
    bug(
        "the epoch stays as it was after a failover",
        "include/epoch",
        "math.max(math.max(birth, seen, carried) + 1, now)",
        "(tonumber(noted[2]) or now)",
    ),
    bug(
        "an epoch that was forgotten is given again",
        "include/epoch",
        "math.max(math.max(birth, seen, carried) + 1, now)",
        "(tonumber(noted[2]) or 0) + 1",
    ),
    bug("a sequence is used again after a failover", "ingest", "text(epoch) ~= ARGV[4]", "false"),
    bug("release does not look at the epoch", "release", "text(epoch) ~= ARGV[2]", "false"),
    bug(
        "there is no takeover wait",
        "include/epoch",
        "math.max(tonumber(lease_ms), tonumber(noted[4]) or 0)",
        "0",
    ),
    bug(
        "release does not keep the takeover wait",
        "release",
        "takeover_wait > 0 then",
        "false then",
    ),
    bug(
        "any vouch ends the takeover wait",
        "resign_partition",
        "wait > 0 and ARGV[3] == text(epoch)",
        "wait > 0 and ARGV[3] ~= ''",
    ),
    bug(
        "the owner that is found ends the takeover wait",
        "acquire_partition",
        "local epoch, wait = current_epoch(KEYS[1], now, ARGV[3])",
        "local epoch, wait = current_epoch(KEYS[1], now, ARGV[3])
if held == ARGV[1] and wait > 0 then
  redis.call('HSET', KEYS[1], 'takeover_wait_ends_ms', text(now))
  wait = 0
end",
    ),
    bug(
        "a removal notes no epoch",
        "forget",
        "'removed_epoch', at_least(removed[1], carried),",
        "",
    ),
    bug(
        "a removal notes the epoch of the partition",
        "forget",
        "math.max(epoch, tonumber(known[2]) or 0)",
        "epoch",
    ),
    bug(
        "what is made again is born in an old epoch",
        "include/epoch",
        "math.max(epoch, (tonumber(noted[6]) or 0) + 1)",
        "epoch",
    ),
    bug("release takes another destination's word", "release", "known[1] ~= ARGV[3]", "false"),
    bug("postpone takes another destination's word", "postpone", "known[1] ~= ARGV[11]", "false"),
    bug("halt takes another destination's word", "halt", "known[1] ~= ARGV[9]", "false"),
    bug(
        "the dead letter of another destination is redriven",
        "ingest",
        "tonumber(letter_epoch) < born",
        "false",
    ),
    // Once, and not twice.
    bug(
        "the answer to a call is not kept",
        "include/call",
        "redis.call('SET', key, cmsgpack.pack({number, answer}), 'PX', '60000')",
        "",
    ),
    bug("a late call is carried out", "include/call", "if call[1] > number then", "if false then"),
    bug(
        "an idempotency key is forgotten",
        "ingest",
        "remember[#remember + 1] = {index, math.max(0, (due or 0) - now)}",
        "",
    ),
    bug(
        "another body is taken for a duplicate",
        "ingest",
        "same == digest and 'duplicate' or 'conflict'",
        "'duplicate'",
    ),
    // Nothing lost, nothing stuck.
    bug(
        "a withdrawal leaves no tombstone",
        "withdraw",
        "redis.call('HSET', KEYS[5], sequence, tombstones[sequence])",
        "redis.call('HDEL', KEYS[5], sequence)
    redis.call('ZREM', in_progress, sequence)",
    ),
    bug(
        "a withdrawal takes what is in a hand",
        "withdraw",
        "return in_nobodys_hand and 'ready' or 'in hand'",
        "return 'ready'",
    ),
    bug("release is neither told nor hinted", "complete", "if releasable then", "if false then"),
    bug(
        "claimers are not hinted",
        "include/waiting",
        "redis.call('ZADD', active_of(place), text(now), place.destination)",
        "",
    ),
    bug(
        "one too many is settled",
        "release",
        "local upto = ARGV[base + 1]",
        "local upto = text(tonumber(ARGV[base + 1]) + 1)",
    ),
    bug(
        "one too few is settled",
        "release",
        "local upto = ARGV[base + 1]",
        "local upto = text(math.max(0, tonumber(ARGV[base + 1]) - 1))",
    ),
    // What pods follow.
    bug(
        "an end is not among the changes",
        "include/changes",
        "redis.call('ZADD', changes, revision, name)",
        "if entry then redis.call('ZADD', changes, revision, name) end",
    ),
    bug(
        "the index forgets an end and says nothing",
        "include/changes",
        "redis.call('HSET', index, '*floor', oldest[2])",
        "",
    ),
    // Gaps.
    bug(
        "a key that was forgotten counts as new",
        "release",
        "if is_forgotten and known[9] then redis.call('HDEL', KEYS[3], 'all_keys_known') end",
        "",
    ),
    bug(
        "a script ends where it may not publish",
        "include/wake",
        "redis.pcall('SPUBLISH'",
        "redis.call('SPUBLISH'",
    ),
    // Bounds and times.
    bug(
        "what is behind a refused head is read",
        "release",
        "if attempts_kept then shorten_refused(attempts) end",
        "",
    ),
    bug("a delayed message may be claimed at once", "ingest", "due and due > now", "false"),
    bug(
        "the backlog has no cap",
        "ingest",
        "room <= 0 or room_bytes < accounted_bytes and",
        "false and",
    ),
    bug("pending bytes are not given back", "release", "counted(7, -bytes)", "counted(7, 0)"),
    bug("attempts are not counted", "fail", "attempts[1] = attempts[1] + 1", ""),
    // Damage and its repair; bodies apart; dead letters.
    bug(
        "a withdrawal needs a record",
        "withdraw",
        "redis.call('HGET', KEYS[5], ARGV[i + 1]) or ''",
        "redis.call('HGET', KEYS[5], ARGV[i + 1])",
    ),
    bug(
        "a lane is released without its damaged message",
        "release",
        "local record = record_of(before + i) or ''",
        "local record = record_of(before + i)
        if not record then break end",
    ),
    bug(
        "a repair halts what is in a hand",
        "repair",
        "if at.halted or held or is_leased(sequence) then return held end",
        "if at.halted or held then return held end",
    ),
    bug(
        "a repair makes no hint for a head with a withdrawal",
        "repair",
        "if not at.ready or at.halted then return end",
        "if not at.ready or at.halted or at.withdrawing then return end",
    ),
    bug("a dry run repairs", "repair", "ARGV[5] == '1'", "true"),
    bug(
        "a repair takes what is leased for lost",
        "repair",
        "at.was_listed or held or is_leased(sequence)",
        "at.was_listed or held",
    ),
    bug(
        "a long body outlives its message",
        "include/left",
        "if #removed > 0 then redis.call('HDEL', bodies, unpack(removed)) end",
        "",
    ),
    bug(
        "dead letters have no maximum",
        "withdraw",
        "how == 's' and room_for_letters <= 0",
        "false",
    ),
    bug("dead letters expire before their time", "expire", "'-inf', last,", "'-inf', '+inf',"),
    bug(
        "what a dead letter has is left when it expires",
        "include/dead_letters",
        "remove_bodies(bodies, sequences)",
        "",
    ),
];
