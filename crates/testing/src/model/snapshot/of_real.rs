//! The actual content of Redis.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use domain::{Sequence, Stage, Tombstone};
use store::LogEntry;

use super::{Fields, Snapshot, age, attempts, hint, record, when};
use crate::model::{
    real::{self, Dump, FIRST_TIME, Real, bytes_of},
    state::{Hint, Left, NAMES, Name, State, Until},
};

/// The actual content of Redis from a dump, for these destinations.
pub async fn of_real(real: &mut Real, dump: &Dump, names: &BTreeSet<Name>) -> Snapshot {
    let now_ms = dump.now_ms;
    let keys = dump.keys.iter().filter(|(key, _)| name_of(key).is_none_or(|of| names.contains(of)));
    let when =
        |ms: &str| when(if real::number(ms) <= now_ms { Until::Past } else { Until::Future });
    let mut all = Snapshot::new();
    let mut unread = BTreeMap::new();
    for (key, typed) in keys {
        let (kind, content) = &**typed;
        let key = key.strip_prefix("reseq:").expect("every key has the prefix").to_owned();
        let tags = ["{p00}:", "{index}:"];
        let key = tags.iter().find_map(|tag| key.strip_prefix(tag)).unwrap_or(&key).to_owned();
        let pairs = content.chunks(2).map(|pair| (pair[0].clone(), pair[pair.len() - 1].clone()));
        let noun = key.rsplit_once("d:").map_or("", |(_, rest)| rest);
        let noun = noun.split_once(':').map_or("", |(_, noun)| noun);
        let is_hint = key == "releasable" || key == "withdrawing" || noun == "lanes";
        let is_instant = key.starts_with("active:") || noun == "halted";
        let mut fields = Fields::new();
        // Only counts the bytes of results.
        if key == "results" {
            continue;
        }
        match (kind.as_str(), key.as_str(), noun) {
            ("zset", "leases", _) => {
                let pairs =
                    pairs.filter(|(member, _)| names.iter().any(|of| is_member(member, of)));
                fields.extend(pairs.map(|(member, ms)| (real.lease(&member), when(&ms))));
            }
            ("zset", "delayed", _) => {
                let pairs =
                    pairs.filter(|(member, _)| names.iter().any(|of| is_member(member, of)));
                fields.extend(pairs.map(|(member, ms)| (member, when(&ms))));
            }
            ("zset", _, "dead-lettered-at") => {
                // [`Real::pass`] sets this time to the distant past.
                let pairs = pairs.map(|(member, ms)| (member, age(real::number(&ms) == 1)));
                fields.extend(pairs);
            }
            ("zset", ..) if is_hint => {
                let of = |score: &str| match real::number(score) {
                    place @ ..FIRST_TIME => hint(Hint::Now(place)),
                    _ => when(score),
                };
                fields.extend(pairs.map(|(member, score)| (member, of(&score))));
            }
            ("zset", ..) if is_instant => {
                fields.extend(pairs.map(|(member, ms)| (member, when(&ms))));
            }
            // Parsed as messages, dead letters and log entries below.
            (_, _, "messages" | "dead-letter-messages" | "log" | "log:order") => {
                unread.insert(key, content.clone());
                continue;
            }
            ("zset", _, "waiting") => {
                let place = |(at, (sequence, score)): (usize, (String, String))| {
                    (at.to_string(), format!("{sequence} {}", real::number(&score)))
                };
                fields.extend(pairs.enumerate().map(place));
            }
            ("list", ..) => {
                let places = content.iter().enumerate();
                fields.extend(places.map(|(at, sequence)| (at.to_string(), sequence.clone())));
            }
            ("string", ..) => {
                fields.insert(String::new(), real.string(&key, &content[0], when));
            }
            ("hash", _, "bodies") => {
                fields
                    .extend(pairs.map(|(field, body)| (field, bytes_of(&body).len().to_string())));
            }
            ("hash", _, "attempts") => {
                let read = pairs.filter_map(|(sequence, kept)| Some((sequence, left(&kept)?)));
                fields.extend(read);
            }
            ("hash", ..) => {
                // Skip `suspects`: a claim removes ended leases there.
                let translated =
                    pairs.filter(|(field, _)| field != "suspects").map(|(field, value)| {
                        let value = match field.as_str() {
                            "granted_until" => granted(real::number(&value), now_ms).to_string(),
                            _ => real.field(&field, &value, &key),
                        };
                        (field, value)
                    });
                // A counter that returned to 0 equals a missing one.
                fields.extend(translated.filter(|(_, value)| value != "0" && !value.is_empty()));
            }
            _ => fields.extend(pairs),
        }
        let renamed = match key.strip_prefix("calls:") {
            Some(caller) => format!("calls:{}", caller.split_once(':').expect("pod:actor").1),
            None => key,
        };
        // Skip the calls with which a pod halts messages that it could not read.
        if !renamed.starts_with("calls:damaged") {
            all.insert(renamed, fields);
        }
    }
    read_by_the_store(real, &mut all, &unread).await;
    all
}

/// How many messages were claimed in the time that is used of a rate.
fn granted(until_us: u64, now_ms: u64) -> u64 {
    until_us.saturating_sub(now_ms * 1000).div_ceil(real::SECOND_US)
}

/// The destinations that changed in the model or in Redis.
pub fn touched(before: (&State, &Dump), after: (&State, &Dump)) -> BTreeSet<Name> {
    let ((old, old_dump), (new, new_dump)) = (before, after);
    if old.seen != new.seen {
        return NAMES.into();
    }
    fn of(dump: &Dump, name: Name) -> impl Iterator<Item = (&String, &Arc<real::Typed>)> {
        dump.keys.iter().filter(move |(key, _)| name_of(key) == Some(name))
    }
    /// Leases and delays of all destinations are in the same keys.
    fn members(dump: &Dump, name: Name) -> impl Iterator<Item = &[String]> {
        let all = dump.keys.iter().filter(|(key, _)| stands_together(key));
        let pairs = all.flat_map(|(_, typed)| typed.1.chunks(2));
        pairs.filter(move |pair| is_member(&pair[0], name))
    }
    let is_touched = |name: &Name| {
        old.destinations.get(name) != new.destinations.get(name)
            || !of(old_dump, name).eq(of(new_dump, name))
            || !members(old_dump, name).eq(members(new_dump, name))
    };
    NAMES.into_iter().filter(is_touched).collect()
}

fn stands_together(key: &str) -> bool {
    key.ends_with("}:leases") || key.ends_with("}:delayed")
}

fn is_member(member: &str, name: Name) -> bool {
    member.split('/').next() == Some(name)
}

/// The destination of a key.
fn name_of(key: &str) -> Option<Name> {
    let (_, rest) = key.split_once(":d:")?;
    let name = rest.split(':').next()?;
    NAMES.into_iter().find(|known| *known == name)
}

/// The stored attempts, as the scripts encode them.
fn left(kept: &str) -> Option<String> {
    type Kept = (u32, u32, String, String, String, Vec<String>, u32, u32, u64, u32, u8);
    let kept: Kept = rmp_serde::from_slice(&bytes_of(kept)).expect("attempts can be read");
    let (failed, stalls, checkpoint, halted_in, due, errors, together, stalls_alone, ..) = kept;
    let (.., checkpoint_ms, asked_later, waits_for_later) = kept;
    let kind = |text: &String| {
        let (_, json) = text.split_once(' ').expect("an error has its time");
        let error: domain::AttemptError = serde_json::from_str(json).unwrap();
        error.kind
    };
    let halted_in = match halted_in.as_str() {
        "" => None,
        "transform" => Some(Stage::Transform),
        "delivery" => Some(Stage::Delivery),
        other => panic!("halted in {other}"),
    };
    let left = Left {
        failed,
        stalls,
        checkpoint: Some(checkpoint).filter(|text| !text.is_empty()),
        errors: errors.iter().map(kind).collect(),
        together,
        stalls_alone,
        saved: checkpoint_ms > 0,
        asked_later,
        waits_for_later: waits_for_later > 0,
    };
    attempts(&left, halted_in, !due.is_empty())
}

/// Parses records, dead letters and log entries as the store does. Skips those that have not
/// changed since they were last parsed.
async fn read_by_the_store(
    real: &mut Real,
    all: &mut Snapshot,
    unread: &BTreeMap<String, Vec<String>>,
) {
    for name in NAMES {
        for noun in ["messages", "dead-letter-messages", "log"] {
            let key = format!("d:{name}:{noun}");
            let Some(content) = unread.get(&key) else { continue };
            let order = unread.get(&format!("{key}:order")).cloned().unwrap_or_default();
            // A body stored out of line is read with its message.
            let bodies = all.get(&format!("d:{name}:bodies")).into_iter().flatten();
            let bodies = bodies.map(|(field, length)| format!("{field} {length}")).collect();
            let raw = [content.clone(), order, bodies].concat();
            let fields = match real.read_before(name, &key, &raw) {
                Some(fields) => fields,
                None => {
                    let fields = read_fields(real, name, noun).await;
                    real.note_read(name, &key, raw, fields.clone());
                    fields
                }
            };
            all.insert(key, fields);
        }
    }
}

async fn read_fields(real: &mut Real, name: Name, noun: &str) -> Fields {
    match noun {
        "messages" => {
            let messages = real.messages(name).await;
            let field = |message| {
                let given = real.given(message);
                (given.sequence.to_string(), record(&given))
            };
            messages.iter().map(field).collect()
        }
        "dead-letter-messages" => {
            let letters = real.letters(name).await.into_iter().map(|one| {
                let message = real.given(&one.message);
                let (stage, reason) = (one.stage, one.reason);
                let left = attempts(&message.left, one.message.attempts.halted_in, false);
                let text = format!("{stage:?}, {reason}, {}, {left:?}", record(&message));
                (message.sequence.to_string(), text)
            });
            letters.collect()
        }
        _ => {
            let tombstones = [Tombstone::Dropped, Tombstone::DeadLettered, Tombstone::Cancelled];
            let log = real.log(name).await.into_iter().enumerate();
            let field = |(at, (sequence, entry)): (usize, (Sequence, LogEntry))| {
                let found = tombstones.into_iter().find(|one| entry.outcome == (*one).into());
                (at.to_string(), format!("{sequence} {found:?}"))
            };
            log.map(field).collect()
        }
    }
}
