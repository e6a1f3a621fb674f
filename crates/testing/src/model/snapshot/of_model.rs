//! The expected content of Redis.

use std::collections::BTreeSet;

use domain::{Ordering, Sequence, Stage};

use super::{Snapshot, age, attempts, hint, letter, record, when};
use crate::model::{
    op::POSITIONS,
    real::{self, REASON},
    state::{Destination, Hint, Lane, Message, Name, Server, Stand, State, Until},
    step::{score_of, stored},
};

/// The expected content of Redis in this state, for these destinations.
pub fn of_model(state: &State, names: &BTreeSet<Name>) -> Snapshot {
    let mut all = Snapshot::new();
    let mut put = |key: &str, field: String, value: String| {
        all.entry(key.to_owned()).or_default().insert(field, value);
    };
    if state.server != Server::Unknown {
        put("epoch", "server".into(), format!("{:?}", state.server));
        put("epoch", "epoch".into(), state.epoch.to_string());
        if state.takeover_wait == Some(Until::Future) {
            put("epoch", "takeover_wait_ms".into(), real::LONG.as_millis().to_string());
        }
        if state.removed_epoch > 0 {
            put("epoch", "removed_epoch".into(), state.removed_epoch.to_string());
        }
    }
    if state.lease_noted {
        put("epoch", "lease_ms".into(), real::LONG.as_millis().to_string());
    }
    if let Some((owner, _)) = state.owner {
        put("owner", String::new(), format!("owner {owner}"));
    }
    for name in &state.active_builtin {
        put("active:builtin", name.to_string(), when(Until::Past));
    }
    for name in &state.active_worker {
        put("active:worker", name.to_string(), when(Until::Past));
    }
    for (name, until) in &state.releasable {
        put("releasable", name.to_string(), hint(*until));
    }
    for name in &state.withdrawing {
        put("withdrawing", name.to_string(), hint(Hint::Now(0)));
    }
    for (caller, (number, _)) in &state.calls {
        put(&format!("calls:caller{caller}"), String::new(), number.to_string());
    }
    for ((name, key), seen) in state.seen.iter().filter(|((name, _), _)| names.contains(name)) {
        let body = real::digest(&seen.body);
        let value = format!("{} {} {} {body}", seen.epoch, seen.sequence, when(seen.until));
        put(&format!("d:{name}:idempotency:{key}"), String::new(), value);
    }
    for ((name, sequence), kept) in state.results.iter().filter(|((of, _), _)| names.contains(of)) {
        put(&format!("d:{name}:result:{sequence}"), String::new(), kept.clone());
    }
    if state.revision > 0 {
        put("destinations", "*".into(), state.revision.to_string());
        put("destinations", "*history".into(), "This".into());
    }
    if state.floor > 0 {
        put("destinations", "*floor".into(), state.floor.to_string());
    }
    for (key, names) in
        [("destinations:changes", &state.changes), ("destinations:removed", &state.removed)]
    {
        for (name, revision) in names {
            put(key, name.to_string(), revision.to_string());
        }
    }
    for (name, version) in &state.removed_definitions {
        put("removed-definitions", name.to_string(), version.to_string());
    }
    for (name, (version, paused)) in &state.index {
        let paused = if paused.is_empty() { "-" } else { paused };
        let born = state.destinations.get(name).map_or(0, |found| found.born);
        put("destinations", name.to_string(), format!("{version} {paused} {born}"));
    }
    for (name, destination) in state.destinations.iter().filter(|(name, _)| names.contains(*name)) {
        of_hash(&mut all, name, destination);
        of_destination(&mut all, name, destination);
        for (sequence, message) in &destination.messages {
            of_message(&mut all, name, destination, *sequence, message);
        }
    }
    all
}

fn of_hash(all: &mut Snapshot, name: Name, destination: &Destination) {
    let hash = all.entry(format!("d:{name}")).or_default();
    let count = |is: fn(&Message) -> bool| destination.count(is);
    let counters = [
        ("last", destination.last),
        ("settled", destination.last - destination.pending()),
        ("ready", count(Message::is_finished)),
        ("halted_ready", count(|m| m.stand == Stand::Halted(Stage::Delivery))),
        ("delayed", count(|m| matches!(m.stand, Stand::Delayed { .. }))),
        ("awaiting_turn", count(|m| matches!(m.stand, Stand::Held { .. }))),
        ("bytes", destination.bytes()),
        ("withdrawals", destination.withdrawals()),
        ("delivered", destination.delivered),
        ("dropped", destination.dropped),
        ("dead_lettered", destination.dead_lettered),
        ("cancelled", destination.cancelled),
        ("discarded", destination.discarded),
        ("expired", destination.expired),
        ("remembered", destination.remembered),
        ("granted_until", destination.granted.into()),
    ];
    let definition = destination.definition;
    let mut texts = vec![
        ("version", destination.version.to_string()),
        ("definition", real::definition_json(name, &definition)),
        ("ordering", text_of(definition.ordering).to_owned()),
        ("versions", destination.versions.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")),
        ("processing", if definition.serial { "serial" } else { "parallel" }.to_owned()),
        ("delivery", "push".to_owned()),
        ("claimers", definition.claimers().as_str().to_owned()),
        ("born", destination.born.to_string()),
    ];
    let numbers = counters.into_iter().chain([("stalls_max", definition.stalls_max.into())]);
    texts.extend(numbers.filter(|(_, value)| *value > 0).map(|(f, value)| (f, value.to_string())));
    if destination.all_keys_known {
        texts.push(("all_keys_known", "1".into()));
    }
    if destination.deleted {
        texts.push(("deleted", "1".into()));
    }
    if !destination.paused.is_empty() {
        texts.push(("paused", destination.paused.into()));
    }
    hash.extend(texts.into_iter().map(|(field, value)| (field.to_owned(), value)));
}

fn text_of(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Destination => "destination",
        Ordering::Key => "key",
        Ordering::None => "none",
    }
}

fn of_destination(all: &mut Snapshot, name: Name, destination: &Destination) {
    let mut put = |noun: &str, field: String, value: String| {
        all.entry(format!("d:{name}:{noun}")).or_default().insert(field, value);
    };
    for (at, sequence) in destination.waiting.iter().enumerate() {
        let score = match destination.definition.ordering {
            Ordering::None => format!(" {}", score_of(destination, *sequence)),
            Ordering::Destination | Ordering::Key => String::new(),
        };
        put("waiting", at.to_string(), format!("{sequence}{score}"));
    }
    if let Some(until) = destination.rest {
        all.entry("delayed".to_owned()).or_default().insert(format!("{name}/rate"), when(until));
    }
    let mut put = |noun: &str, field: String, value: String| {
        all.entry(format!("d:{name}:{noun}")).or_default().insert(field, value);
    };
    for (lane, not_before) in &destination.lanes {
        put("lanes", lane.clone(), hint(*not_before));
    }
    for (key, last) in &destination.previous {
        put("previous", key.to_string(), last.to_string());
    }
    for (source, mark) in &destination.sources {
        put("sources", format!("source {source}"), POSITIONS[*mark].to_owned());
    }
    for (key, seen) in &destination.unique {
        let body = real::digest(&seen.body);
        put("idempotency-keys", key.clone(), format!("{} {} {body}", seen.epoch, seen.sequence));
    }
    for (sequence, one) in &destination.letters {
        put("dead-letters", sequence.to_string(), sequence.to_string());
        put("dead-lettered-at", sequence.to_string(), age(one.is_old));
        if let Some(length) = one.message.length_out_of_line() {
            put("bodies", sequence.to_string(), length.to_string());
        }
        let message = stored(*sequence, &one.message);
        let halted_in = one.was_halted.then_some(one.stage);
        let left = attempts(&one.message.left, halted_in, false);
        let text = format!("{:?}, {}, {}, {left:?}", one.stage, one.reason, record(&message));
        put("dead-letter-messages", sequence.to_string(), text);
    }
    for (sequence, length) in &destination.left_bodies {
        put("bodies", sequence.to_string(), length.to_string());
    }
    for (at, (sequence, outcome)) in destination.log.iter().enumerate() {
        put("log", at.to_string(), format!("{sequence} {outcome:?}"));
    }
}

fn of_message(
    all: &mut Snapshot,
    name: Name,
    destination: &Destination,
    sequence: Sequence,
    message: &Message,
) {
    let mut put = |key: String, field: String, value: String| {
        all.entry(key).or_default().insert(field, value);
    };
    let (hash, at) = (format!("d:{name}"), sequence.to_string());
    let lane = destination.lane_of(sequence, message);
    let of_lane = |noun: &str| match lane {
        Lane::Whole | Lane::Single(_) => format!("{hash}:{noun}"),
        Lane::Key(key) => format!("{hash}:{noun}:{key}"),
    };
    put(of_lane("in-progress"), at.clone(), at.clone());
    if message.has_record() {
        put(format!("{hash}:messages"), at.clone(), record(&stored(sequence, message)));
    }
    if let Some(length) = message.length_out_of_line() {
        put(format!("{hash}:bodies"), at.clone(), length.to_string());
    }
    let halted_in = match message.stand {
        Stand::Halted(stage) => Some(stage),
        _ => None,
    };
    let is_delayed = message.stand == (Stand::Held { delayed: true });
    if let Some(text) = attempts(&message.left, halted_in, is_delayed) {
        put(format!("{hash}:attempts"), at.clone(), text);
    }
    if let Some(how) = message.withdrawal {
        let key = if let Lane::Key(key) = lane { key } else { "" };
        let text = format!("{}{} {key}{REASON}", letter(how), key.len());
        put(format!("{hash}:withdrawals"), at.clone(), text);
    }
    if halted_in.is_some() {
        put(format!("{hash}:halted"), at.clone(), when(Until::Past));
    }
    if message.is_finished() {
        put(of_lane("ready"), at.clone(), at.clone());
    }
    match &message.stand {
        Stand::Leased { secret, until } => {
            put("leases".into(), format!("{name}/{sequence}/{secret}"), when(*until));
        }
        Stand::Delayed { until } => {
            put("delayed".into(), format!("{name}/{sequence}"), when(*until));
        }
        _ => {}
    }
}
