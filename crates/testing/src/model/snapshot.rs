//! The whole state as text: the name of each key, and each of its fields or members. Times are
//! only "past" or "future"; epochs and versions are the model's numbers.

mod of_model;
mod of_real;

use std::collections::BTreeMap;

use domain::{Stage, Tombstone};

use super::{
    op::Given,
    state::{Hint, Left, Until},
};
pub use of_model::of_model;
pub use of_real::{of_real, touched};

/// The content of a key, by field, member or index.
pub type Fields = BTreeMap<String, String>;
/// All keys, without their common prefix.
pub type Snapshot = BTreeMap<String, Fields>;

/// The lines that differ between two snapshots.
pub fn difference(expected: &Snapshot, found: &Snapshot) -> Option<String> {
    if expected == found {
        return None;
    }
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

fn hint(hint: Hint) -> String {
    match hint {
        Hint::Now(place) => format!("now, place {place}"),
        Hint::At(until) => when(until),
    }
}

/// The age of a dead letter.
fn age(is_old: bool) -> String {
    if is_old { "too old".to_owned() } else { "kept".to_owned() }
}

fn letter(tombstone: Tombstone) -> char {
    match tombstone {
        Tombstone::Dropped => 'd',
        Tombstone::DeadLettered => 's',
        Tombstone::Cancelled => 'c',
    }
}

/// A message without its attempts.
fn record(given: &Given) -> String {
    let Given {
        epoch,
        previous,
        key,
        body,
        priority,
        accounted_bytes,
        idempotency_key,
        options,
        tombstone,
        ..
    } = given;
    format!(
        "epoch {epoch}, previous {previous:?}, key {key:?}, {body:?}, priority {priority}, accounted_bytes \
         {accounted_bytes}, idempotency key {idempotency_key:?}, {options:?}, {tombstone:?}"
    )
}

/// The stored attempts; `None` if they equal the default.
fn attempts(left: &Left, halted_in: Option<Stage>, is_delayed: bool) -> Option<String> {
    let is_nothing = *left == Left::default() && halted_in.is_none() && !is_delayed;
    let text = || format!("{left:?}, halted in {halted_in:?}, delayed while held {is_delayed}");
    (!is_nothing).then(text)
}
