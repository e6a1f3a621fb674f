//! The whole state, written down: the name of each key, and each of its fields or members. Of
//! instants only whether they are over is written, of epochs and versions which they are.

use std::collections::BTreeMap;

use reseq::domain::{Ordering, Sequence};

use super::{
    real::{self, Real},
    state::{Destination, NAMES, Name, Server, Stand, State, Until},
};

/// What a key holds, by field, member or place.
pub type Fields = BTreeMap<String, String>;
/// All keys, without what all their names start with.
pub type Snapshot = BTreeMap<String, Fields>;

/// The lines in which two snapshots differ.
pub fn difference(expected: &Snapshot, found: &Snapshot) -> Option<String> {
    let flat = |snapshot: &Snapshot| -> BTreeMap<(String, String), String> {
        let fields = snapshot.iter().flat_map(|(key, fields)| {
            fields.iter().map(|(field, value)| ((key.clone(), field.clone()), value.clone()))
        });
        fields.collect()
    };
    let (expected, found) = (flat(expected), flat(found));
    let mut lines = Vec::new();
    for (at, value) in &expected {
        if found.get(at) != Some(value) {
            lines.push(format!("{at:?}: {:?} instead of {value:?}", found.get(at)));
        }
    }
    let surplus = found.iter().filter(|(at, _)| !expected.contains_key(at));
    lines.extend(surplus.map(|(at, value)| format!("{at:?}: {value:?} instead of nothing")));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn when(until: Until) -> String {
    match until {
        Until::Past => "past".to_owned(),
        Until::Future => "future".to_owned(),
    }
}

/// What Redis must hold when the partition is in this state.
pub fn of_model(state: &State) -> Snapshot {
    let mut all = Snapshot::new();
    let mut put = |key: &str, field: String, value: String| {
        all.entry(key.to_owned()).or_default().insert(field, value);
    };
    if state.server != Server::Unknown {
        put("epoch", "server".into(), format!("{:?}", state.server));
        put("epoch", "epoch".into(), state.epoch.to_string());
        let quarantine = state.quarantine.unwrap_or(Until::Past);
        put("epoch", "quarantine_ends_ms".into(), when(quarantine));
    }
    if let Some((owner, until)) = state.owner {
        put("owner", String::new(), format!("owner {owner}, {}", when(until)));
    }
    for name in &state.active_builtin {
        put("active:builtin", name.to_string(), when(Until::Past));
    }
    for name in &state.active_worker {
        put("active:worker", name.to_string(), when(Until::Past));
    }
    for (name, until) in &state.releasable {
        put("releasable", name.to_string(), when(*until));
    }
    for (caller, (number, _)) in &state.calls {
        put(&format!("calls:caller{caller}"), String::new(), number.to_string());
    }
    for ((name, key), seen) in &state.seen {
        let value = format!("{} {} {} {}", seen.epoch, seen.sequence, when(seen.until), seen.body);
        put(&format!("d:{name}:seen:{key}"), String::new(), value);
    }
    if state.revision > 0 {
        put("destinations", "*".into(), state.revision.to_string());
    }
    for (name, version) in &state.index {
        put("destinations", name.to_string(), version.to_string());
    }
    for (name, destination) in &state.destinations {
        of_destination(&mut all, name, destination);
    }
    all
}

fn of_destination(all: &mut Snapshot, name: Name, destination: &Destination) {
    let mut put = |key: String, field: String, value: String| {
        all.entry(key).or_default().insert(field, value);
    };
    let hash = format!("d:{name}");
    let ready = destination.count(|stand| *stand == Stand::Ready);
    let delayed = destination.count(|stand| matches!(stand, Stand::Delayed { .. }));
    let counters = [
        ("last", destination.last),
        ("settled", destination.last - destination.pending()),
        ("ready", ready),
        ("delayed", delayed),
        ("delivered", destination.delivered),
        ("dropped", destination.dropped),
    ];
    for (field, value) in counters.into_iter().filter(|(_, value)| *value > 0) {
        put(hash.clone(), field.into(), value.to_string());
    }
    if destination.deleted {
        put(hash.clone(), "deleted".into(), "1".into());
    }
    let definition = destination.definition;
    let ordering = match definition.ordering {
        Ordering::Destination => "destination",
        Ordering::Key => "key",
    };
    put(hash.clone(), "version".into(), destination.version.to_string());
    put(hash.clone(), "definition".into(), real::definition_json(name, &definition));
    put(hash.clone(), "ordering".into(), ordering.into());
    put(hash.clone(), "claimers".into(), definition.claimers().as_str().into());
    put(hash.clone(), "born".into(), destination.born.to_string());

    for (at, sequence) in destination.waiting.iter().enumerate() {
        put(format!("{hash}:waiting"), at.to_string(), sequence.to_string());
    }
    for (lane, not_before) in &destination.lanes {
        put(format!("{hash}:lanes"), lane.to_string(), when(*not_before));
    }
    for (sequence, message) in &destination.messages {
        let at = sequence.to_string();
        let lane = definition.lane_of(message.key);
        let of_lane = |noun: &str| match lane {
            None => format!("{hash}:{noun}"),
            Some(key) => format!("{hash}:{noun}:{key}"),
        };
        put(of_lane("in-progress"), at.clone(), at.clone());
        put(format!("{hash}:messages"), at.clone(), {
            let (key, body) = (message.key, &message.body);
            record(message.epoch, message.previous, key, body, message.tombstone)
        });
        if message.attempts > 0 {
            put(format!("{hash}:attempts"), at.clone(), message.attempts.to_string());
        }
        match &message.stand {
            Stand::Waiting => {}
            Stand::Leased { secret, until } => {
                put("leases".into(), format!("{name}/{sequence}/{secret}"), when(*until));
            }
            Stand::Delayed { until } => {
                put("delayed".into(), format!("{name}/{sequence}"), when(*until));
            }
            Stand::Ready => put(of_lane("ready"), at.clone(), at),
        }
    }
}

fn record(
    epoch: u64,
    previous: Sequence,
    key: Option<&str>,
    body: &str,
    tombstone: bool,
) -> String {
    format!("epoch {epoch}, previous {previous}, key {key:?}, {body:?}, tombstone {tombstone}")
}

/// What Redis does hold.
pub async fn of_real(real: &mut Real) -> Snapshot {
    let (now_ms, keys) = real.dump().await;
    let when =
        |ms: &str| when(if real::number(ms) <= now_ms { Until::Past } else { Until::Future });
    let mut all = Snapshot::new();
    for (key, (kind, content)) in keys {
        let key = key.strip_prefix("reseq:").expect("every key has the prefix").to_owned();
        let key = key.strip_prefix("{p00}:").unwrap_or(&key).to_owned();
        let pairs = content.chunks(2).map(|pair| (pair[0].clone(), pair[pair.len() - 1].clone()));
        let noun = key.rsplit_once("d:").map_or("", |(_, rest)| rest);
        let noun = noun.split_once(':').map_or("", |(_, noun)| noun);
        let is_instant = matches!(key.as_str(), "releasable" | "delayed" | "leases")
            || key.starts_with("active:")
            || noun == "lanes";
        let mut fields = Fields::new();
        match (kind.as_str(), key.as_str(), noun) {
            ("zset", "leases", _) => {
                fields.extend(pairs.map(|(member, ms)| (real.lease(&member), when(&ms))));
            }
            ("zset", ..) if is_instant => {
                fields.extend(pairs.map(|(member, ms)| (member, when(&ms))));
            }
            ("list", ..) => {
                let places = content.iter().enumerate();
                fields.extend(places.map(|(at, sequence)| (at.to_string(), sequence.clone())));
            }
            // What is in them is read as messages, below.
            ("hash", _, "messages") => continue,
            ("string", ..) => {
                fields.insert(String::new(), real.string(&key, &content[0], when));
            }
            ("hash", ..) => {
                let translated = pairs
                    .map(|(field, value)| (field.clone(), real.field(&field, &value, &key, when)));
                // A counter that came back to nothing is as good as none.
                fields.extend(translated.filter(|(_, value)| value != "0"));
            }
            _ => fields.extend(pairs),
        }
        let renamed = match key.strip_prefix("calls:") {
            Some(caller) => format!("calls:{}", caller.split_once(':').expect("pod:actor").1),
            None => key,
        };
        all.insert(renamed, fields);
    }
    for name in NAMES {
        for message in real.messages(name).await {
            let (place, key) = (message.place, message.message.key.as_deref());
            let body = String::from_utf8_lossy(&message.message.body.bytes).into_owned();
            let epoch = real.epoch(place.epoch);
            let text = record(epoch, message.previous, key, &body, message.tombstone);
            let fields = all.entry(format!("d:{name}:messages")).or_default();
            fields.insert(place.sequence.to_string(), text);
        }
    }
    all
}
