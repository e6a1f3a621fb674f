//! Finds promised messages that are lost. They must be at the end of their epoch, and the
//! surviving messages must keep their positions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use super::{
    Acknowledged, Cut,
    support::{
        checker::{Rule, stats},
        journal::Delivery,
        ledger::Promise,
        pods::Pod,
        transformer::transformed,
        wait::eventually,
    },
};

type Position = (u64, u64);

pub struct Lost {
    /// The bodies of acknowledged and lost messages.
    pub bodies: HashSet<String>,
    /// The number of epochs with stamped messages.
    pub epochs: usize,
}

/// Waits until no message is pending.
pub async fn settled(pod: &Pod, destinations: &[&str]) {
    for name in destinations {
        eventually(&format!("{name} is drained"), async || {
            let numbers = stats(pod, name).await?;
            if numbers["pending"] == 0 { Ok(()) } else { Err(numbers.to_string()) }
        })
        .await;
    }
}

/// Checks each destination: no position belongs to two messages, each lane's positions come in
/// order, and the lost messages of an epoch are above all its surviving ones.
///
/// The destination `held` may deliver out of order: its requests waited until their sender had
/// given them up, so they arrive late. Their positions identify them.
pub fn check(promises: &[Promise], deliveries: &[Delivery], rules: &[Rule], held: &str) -> Lost {
    let (mut bodies, mut epochs) = (HashSet::new(), BTreeSet::new());
    for rule in rules {
        let promises = promises.iter().filter(|one| one.destination == rule.destination);
        let promises: Vec<&Promise> = promises.collect();
        let deliveries = deliveries.iter().filter(|one| one.destination == rule.destination);
        let deliveries: Vec<&Delivery> = deliveries.collect();
        one_message_a_place(rule, &promises, &deliveries);
        if rule.destination != held {
            in_order(rule, &deliveries);
        }
        bodies.extend(last_of_their_epoch(rule, &promises, &deliveries));
        epochs.extend(promises.iter().map(|promise| promise.epoch.unwrap()));
    }
    Lost { bodies, epochs: epochs.len() }
}

fn place_of(delivery: &Delivery) -> Position {
    let headers = delivery.headers.as_ref().expect("deliveries over HTTP have headers");
    (headers.epoch, headers.sequence)
}

fn outcome(rule: &Rule, body: &str) -> String {
    if rule.is_transformed { transformed(body) } else { body.to_owned() }
}

fn one_message_a_place(rule: &Rule, promises: &[&Promise], deliveries: &[&Delivery]) {
    let mut bodies: HashMap<Position, String> = HashMap::new();
    let promised = promises
        .iter()
        .map(|promise| ((promise.epoch.unwrap(), promise.sequence), outcome(rule, &promise.body)));
    let delivered = deliveries.iter().map(|delivery| (place_of(delivery), delivery.body.clone()));
    for (position, body) in promised.chain(delivered) {
        let known = bodies.entry(position).or_insert_with(|| body.clone());
        assert_eq!(*known, body, "two messages at {position:?} of {}", rule.destination);
    }
}

fn in_order(rule: &Rule, deliveries: &[&Delivery]) {
    let mut seen: HashSet<Position> = HashSet::new();
    let mut last: HashMap<Option<&str>, Position> = HashMap::new();
    for delivery in deliveries.iter().filter(|delivery| seen.insert(place_of(delivery))) {
        let key = delivery.headers.as_ref().and_then(|headers| headers.key.as_deref());
        let lane = key.filter(|_| rule.by_key);
        let before = last.insert(lane, place_of(delivery));
        assert!(before < Some(place_of(delivery)), "{delivery:?} came after {before:?}");
    }
}

/// The lost messages of this destination.
fn last_of_their_epoch(
    rule: &Rule,
    promises: &[&Promise],
    deliveries: &[&Delivery],
) -> Vec<String> {
    let places: HashSet<Position> = deliveries.iter().map(|delivery| place_of(delivery)).collect();
    let delivered: HashSet<&str> = deliveries.iter().map(|one| one.body.as_str()).collect();
    // The highest surviving sequence, by lane and epoch.
    let mut left: BTreeMap<(Option<&str>, u64), u64> = BTreeMap::new();
    for promise in promises.iter().filter(|p| places.contains(&(p.epoch.unwrap(), p.sequence))) {
        let lane = promise.key.as_deref().filter(|_| rule.by_key);
        let highest = left.entry((lane, promise.epoch.unwrap())).or_default();
        *highest = promise.sequence.max(*highest);
    }
    let mut lost = Vec::new();
    for promise in promises {
        // If the body arrived at another position, the message was sent again.
        if delivered.contains(outcome(rule, &promise.body).as_str()) {
            continue;
        }
        let lane = promise.key.as_deref().filter(|_| rule.by_key);
        let highest = left.get(&(lane, promise.epoch.unwrap())).copied().unwrap_or_default();
        assert!(promise.sequence > highest, "{promise:?} is lost, and {highest} is not");
        lost.push(promise.body.clone());
    }
    lost
}

/// For each lost message, the time between its acknowledgement and the power cut, in ms.
pub fn ages(lost: &Lost, acknowledged: &[Acknowledged], cuts: &[Cut]) -> Vec<u128> {
    let of_lost = acknowledged.iter().filter(|(body, _)| lost.bodies.contains(body));
    let age = |(_, at): &Acknowledged| {
        // The client may read an answer shortly after the server has ended.
        let cut = cuts.iter().map(|cut| cut.at).find(|cut| *cut + Duration::from_millis(50) > *at);
        cut.map(|cut| cut.saturating_duration_since(*at).as_millis())
    };
    of_lost.filter_map(age).collect()
}
