//! Causes that block a destination and need an operator, with the command that helps.

use std::collections::BTreeSet;

use serde_json::json;

use super::stats::{Attention, Head, Stats};
use crate::output::{counted, error_of, human_age, plain, quoted};

/// The most lines about the heads of a destination.
const HEADS_MAX: usize = 3;

/// The causes that block a destination, one line each.
pub(super) fn blocks(name: &str, stats: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reason) = &stats.not_read {
        lines.push(format!("not read: {}; reseq doctor", plain(reason)));
    }
    if !stats.damaged.is_empty() {
        let damaged = plain(&stats.damaged.join(", "));
        lines.push(format!("damaged: {damaged}; reseq repair {name} --dry-run"));
    }
    for what in stats.paused.parts() {
        lines.push(format!("{what} is paused; reseq destinations resume {name} {what}"));
    }
    lines.extend(stats.attention.iter().filter_map(|found| attention(name, found)));
    let heads = match stats.heads.is_empty() {
        true => stats.head.as_slice(),
        false => &stats.heads,
    };
    let stuck: Vec<&Head> =
        heads.iter().filter(|head| head.failures() > 0 || head.is_halted()).collect();
    lines.extend(stuck.iter().take(HEADS_MAX).map(|head| block(name, head)));
    if stuck.len() > HEADS_MAX {
        lines.push(more(name, &stuck[HEADS_MAX..]));
    }
    lines
}

/// A line about a cause that needs attention; `None` if other lines already show it.
fn attention(name: &str, found: &Attention) -> Option<String> {
    let messages = counted(found.count, "message");
    let error = found.error.as_ref().map(|error| format!(" ({})", plain(error)));
    let error = error.unwrap_or_default();
    let why = format!("reseq why {name}");
    Some(match found.cause.as_str() {
        "failing" => format!("{messages} failing for longer than a minute{error}; {why}"),
        "no_owner" => format!("{messages} pending, and no sender delivers; reseq doctor"),
        "no_worker" => format!("{messages} waiting, and nobody takes any; {why}"),
        "at_limit" => format!("at its limit, it accepts no more: {messages} pending; {why}"),
        "slow" => format!("{messages} pending, the oldest for longer than five minutes; {why}"),
        "halted" | "damaged" | "paused" => return None,
        // The cause is from a newer service.
        cause => format!("{}: {messages}{error}; {why}", plain(cause)),
    })
}

/// The number of further stuck heads, with the commands that list them.
fn more(name: &str, heads: &[&Head]) -> String {
    let states: BTreeSet<&str> = heads.iter().map(|head| head.listed_state()).collect();
    let list = |state| format!("reseq messages list {name} --state {state}");
    format!("and more; {}", states.into_iter().map(list).collect::<Vec<_>>().join(", "))
}

/// A head that is stuck.
fn block(name: &str, head: &Head) -> String {
    let name = head.shard.as_deref().unwrap_or(name);
    let sequence = head.sequence;
    let of_key = head.key.as_ref().map(|key| format!(" of key {key:?}")).unwrap_or_default();
    let error = match error_of(&json!({"last_error": head.last_error})) {
        none if none.is_empty() => none,
        error => format!(" ({error})"),
    };
    if !head.is_halted() {
        let (by, attempts) = (head.blocked_by.as_deref().unwrap_or("it"), head.failures());
        return format!(
            "{sequence}{of_key}: {by} has failed {attempts} times, and is being retried{error}; \
             reseq messages show {name} {sequence}"
        );
    }
    let key = match &head.key {
        Some(key) => format!(" --key {}", quoted(key)),
        None => String::new(),
    };
    let since = head.halted_for_ms.map(|ms| format!(" for {}", human_age(ms))).unwrap_or_default();
    format!(
        "{sequence}{of_key} is halted{since}{error}; reseq lanes retry {name}{key} --sequence \
         {sequence}, or lanes skip",
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[test]
    fn hint_names_the_states_of_the_heads_that_are_left_out() {
        let heads: Vec<Head> = ["ready", "delivering", "delayed"]
            .map(|state| Head::deserialize(&json!({"state": state, "attempts": 1})).unwrap())
            .into();
        let heads: Vec<&Head> = heads.iter().collect();
        assert_eq!(more("erp", &heads[..2]), "and more; reseq messages list erp --state ready");
        let both = "and more; reseq messages list erp --state delayed, \
                    reseq messages list erp --state ready";
        assert_eq!(more("erp", &heads), both);
    }

    #[test]
    fn a_halted_head_is_named_with_the_command_that_helps() {
        let head = |state: &str, error: Value| {
            let head = json!({"sequence": 7, "key": "a b", "state": state, "attempts": 2,
                "halted_for_ms": 61_000, "last_error": error});
            Head::deserialize(&head).unwrap()
        };
        let error = json!({"kind": "status", "status": 422, "detail": "no\nand more"});
        assert_eq!(
            block("erp", &head("halted", error)),
            "7 of key \"a b\" is halted for 1 min 1 s (status 422: no); \
             reseq lanes retry erp --key 'a b' --sequence 7, or lanes skip"
        );
        assert_eq!(
            block("erp", &head("delayed", Value::Null)),
            "7 of key \"a b\": it has failed 2 times, and is being retried; \
             reseq messages show erp 7"
        );
    }
}
