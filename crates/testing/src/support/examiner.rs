//! Compares the journals of receivers with the promises to producers and the messages still in
//! Redis, and names each anomaly.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub use super::anomaly::{Anomalies, Anomaly};
use super::{
    journal::{Delivery, Headers, Journal},
    ledger::{Ledger, Promise, base_of},
    transformer::transformed,
};

/// The ordering of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All its messages are in order.
    Destination,
    /// The messages of each ordering key are in order.
    Key,
    /// Messages may be in any order.
    None,
}

/// How to examine a destination.
#[derive(Debug, Clone)]
pub struct Subject {
    pub destination: &'static str,
    pub order: Order,
    /// The transform marks each body.
    pub is_transformed: bool,
    /// The test removes the destination, and creates it again.
    pub is_removed: bool,
}

/// The data that Redis may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Losses {
    /// No data.
    None,
    /// Unconfirmed writes, when a primary is lost. They were not promised to any producer. A
    /// message delivered before the loss is delivered again at another position, in a higher epoch.
    Unconfirmed,
}

/// The counts of a correct run.
#[derive(Debug, Default)]
pub struct Found {
    /// Distinct messages.
    pub messages: usize,
    /// Deliveries of a message after the first.
    pub repeats: usize,
    /// Repeats by destination.
    pub repeats_of: BTreeMap<String, usize>,
    /// Deliveries that were marked as later attempts.
    pub later_attempts: usize,
    /// Messages delivered at an unpromised position that Redis lost, and then at another position.
    pub placed_again: usize,
    /// Messages that were destroyed on purpose and not delivered.
    pub destroyed: usize,
}

/// Destination and sequence of messages pending in Redis.
pub type Held = HashSet<(String, u64)>;
type Lane<'a> = (&'a str, Option<&'a str>);
type Position = (Option<u64>, u64);

/// Checks: nothing lost, nothing invented, each lane in order, repeats identical. `subjects` must
/// name all destinations. Takes time proportional to promises and deliveries.
pub fn examine(
    ledger: &Ledger,
    journal: &Journal,
    held: &Held,
    subjects: &[Subject],
    losses: Losses,
) -> (Found, Anomalies) {
    let (promises, deliveries) = (ledger.all(), journal.all());
    let destroyed = ledger.destroyed();
    let mut examiner = Examiner {
        ledger,
        subjects,
        losses,
        destroyed: destroyed.iter().map(|(name, _, at)| (name.as_str(), *at)).collect(),
        as_promised: HashSet::new(),
        promised: HashMap::new(),
        sequences: HashMap::new(),
        at: HashMap::new(),
        first: HashMap::new(),
        seen_at: HashMap::new(),
        last: HashMap::new(),
        found: Found::default(),
        anomalies: Anomalies::default(),
    };
    examiner.promises_in_order(&promises);
    for promise in &promises {
        examiner.promise(promise);
    }
    let mut last_of: HashMap<(&str, &str), usize> = HashMap::new();
    if losses == Losses::Unconfirmed {
        examiner.deliveries_as_promised(&deliveries);
        // A delivery without headers shows no position. The last delivery has the final position.
        let without = deliveries.iter().enumerate().filter(|(_, one)| one.headers.is_none());
        last_of
            .extend(without.map(|(at, one)| ((one.destination.as_str(), one.body.as_str()), at)));
    }
    for (at, delivery) in deliveries.iter().enumerate() {
        let body = (delivery.destination.as_str(), delivery.body.as_str());
        match last_of.get(&body).is_some_and(|last| *last > at) {
            true => examiner.repeated(delivery),
            false => examiner.delivery(delivery),
        }
    }
    for ((destination, body), promise) in &examiner.promised {
        if examiner.first.contains_key(&(*destination, body.as_str())) {
            continue;
        }
        let is_destroyed = destroyed.iter().any(|(name, epoch, sequence)| {
            name == destination
                && promise.epoch.is_none_or(|promised| promised == *epoch)
                && promise.sequence == *sequence
        });
        if is_destroyed {
            examiner.found.destroyed += 1;
            continue;
        }
        let is_held = held.contains(&((*destination).to_owned(), promise.sequence));
        let name = if is_held { Anomaly::Stuck } else { Anomaly::Lost };
        examiner.anomalies.note(name, || format!("{promise:?}"));
    }
    examiner.found.messages = examiner.first.len();
    (examiner.found, examiner.anomalies)
}

struct Examiner<'a> {
    ledger: &'a Ledger,
    subjects: &'a [Subject],
    losses: Losses,
    /// Destination and sequence of messages destroyed on purpose.
    destroyed: HashSet<(&'a str, u64)>,
    /// If losses are expected: messages delivered as promised, even if late.
    as_promised: HashSet<(&'a str, &'a str)>,
    /// The promised sequences of each lane.
    sequences: HashMap<Lane<'a>, BTreeSet<u64>>,
    /// By destination and expected body.
    promised: HashMap<(&'a str, String), &'a Promise>,
    /// By destination and position.
    at: HashMap<(&'a str, Position), &'a Promise>,
    /// First deliveries, by destination and body.
    first: HashMap<(&'a str, &'a str), &'a Delivery>,
    /// First deliveries, by destination and position.
    seen_at: HashMap<(&'a str, Position), &'a Delivery>,
    last: HashMap<Lane<'a>, Position>,
    found: Found,
    anomalies: Anomalies,
}

impl<'a> Examiner<'a> {
    fn subject(&self, destination: &str) -> &'a Subject {
        let mut all = self.subjects.iter();
        all.find(|subject| subject.destination == base_of(destination))
            .expect("each destination is named")
    }

    /// Checks that each producer's messages got ascending positions in each destination.
    fn promises_in_order(&mut self, promises: &'a [Promise]) {
        let mut by_producer: HashMap<(&str, &str), Vec<&Promise>> = HashMap::new();
        for promise in promises {
            let from = (promise.producer.as_str(), promise.destination.as_str());
            by_producer.entry(from).or_default().push(promise);
        }
        for sent in by_producer.values_mut() {
            // The order of answers to retries may differ from the order of sending.
            sent.sort_by_key(|promise| number(&promise.body));
            for pair in sent.windows(2) {
                let [before, after] = pair else { continue };
                if position(before) >= position(after) {
                    let what = || format!("{after:?} was sent after {before:?}");
                    self.anomalies.note(Anomaly::Reordered, what);
                }
            }
        }
    }

    fn promise(&mut self, promise: &'a Promise) {
        let destination = promise.destination.as_str();
        let is_transformed = self.subject(destination).is_transformed;
        let outcome =
            if is_transformed { transformed(&promise.body) } else { promise.body.clone() };
        if let Some(other) = self.promised.insert((destination, outcome), promise) {
            let what = || format!("promised twice: {other:?}, {promise:?}");
            self.anomalies.note(Anomaly::DoubledSequence, what);
        }
        if let Some(other) = self.at.insert((destination, position(promise)), promise)
            && other.body != promise.body
        {
            let what = || format!("{other:?} and {promise:?}");
            self.anomalies.note(Anomaly::DoubledSequence, what);
        }
        let is_keyed = self.subject(destination).order == Order::Key;
        let lane = (destination, promise.key.as_deref().filter(|_| is_keyed));
        self.sequences.entry(lane).or_default().insert(promise.sequence);
    }

    fn deliveries_as_promised(&mut self, deliveries: &'a [Delivery]) {
        for Delivery { destination, body, headers } in deliveries {
            let promise = self.promised.get(&(destination.as_str(), body.clone())).copied();
            if headers.as_ref().is_some_and(|headers| is_as_promised(headers, promise)) {
                self.as_promised.insert((destination, body));
            }
        }
    }

    fn repeated(&mut self, delivery: &'a Delivery) {
        self.found.repeats += 1;
        *self.found.repeats_of.entry(delivery.destination.clone()).or_default() += 1;
    }

    fn delivery(&mut self, delivery: &'a Delivery) {
        let name = delivery.destination.as_str();
        if let Some(headers) = &delivery.headers {
            self.found.later_attempts += usize::from(headers.attempt > 1);
        }
        let promise = self.promised.get(&(name, delivery.body.clone())).copied();
        if let Some(first) = self.first.get(&(name, delivery.body.as_str())).copied() {
            let is_the_same = but_attempt(first) == but_attempt(delivery);
            if !is_the_same && self.is_placed_again(first, delivery, promise) {
                self.found.placed_again += 1;
                self.first.insert((name, &delivery.body), delivery);
                self.first_delivery(delivery, promise);
                return;
            }
            if !is_the_same {
                let what = || format!("{delivery:?} repeats {first:?}");
                self.anomalies.note(Anomaly::UnrecognisableRepeat, what);
            }
            self.repeated(delivery);
            return;
        }
        self.first.insert((name, &delivery.body), delivery);
        if promise.is_none() && !self.is_doubtful(delivery) {
            self.unknown(delivery);
            return;
        }
        self.first_delivery(delivery, promise);
    }

    /// True if Redis lost the first position of a message, which was not promised.
    fn is_placed_again(
        &self,
        first: &Delivery,
        again: &Delivery,
        promise: Option<&Promise>,
    ) -> bool {
        let (Some(first), Some(again)) = (&first.headers, &again.headers) else { return false };
        self.losses == Losses::Unconfirmed
            && again.epoch > first.epoch
            && promise.is_none_or(|promise| {
                promise.sequence != first.sequence
                    || promise.epoch.is_some_and(|epoch| epoch != first.epoch)
            })
    }

    /// True if the message was sent, and its answer was lost.
    fn is_doubtful(&self, delivery: &Delivery) -> bool {
        let body = match self.subject(&delivery.destination).is_transformed {
            false => Some(delivery.body.as_str()),
            true => delivery
                .body
                .strip_prefix("{\"transformed\":")
                .and_then(|body| body.strip_suffix('}')),
        };
        body.is_some_and(|body| self.ledger.is_doubtful(body))
    }

    fn unknown(&mut self, delivery: &Delivery) {
        let at = delivery.headers.as_ref().map(|headers| (Some(headers.epoch), headers.sequence));
        let promised = at.and_then(|at| self.at.get(&(delivery.destination.as_str(), at)));
        match promised {
            Some(promise) => self.anomalies.note(Anomaly::BodyMismatch, || {
                format!("{delivery:?}, and promised was {promise:?}")
            }),
            None => {
                self.anomalies.note(Anomaly::Invented, || format!("nobody sent in {delivery:?}"))
            }
        }
    }

    fn first_delivery(&mut self, delivery: &'a Delivery, promise: Option<&'a Promise>) {
        let name = delivery.destination.as_str();
        let order = self.subject(name).order;
        let headers = delivery.headers.as_ref();
        // Over TCP, only the promise has the position.
        let at = headers.map(|headers| (Some(headers.epoch), headers.sequence));
        let Some(at) = at.or(promise.map(position)) else { return };
        if let Some(other) = self.seen_at.insert((name, at), delivery) {
            let what = || format!("{other:?} and {delivery:?}");
            self.anomalies.note(Anomaly::DoubledSequence, what);
        }
        let key = headers
            .map_or(promise.and_then(|one| one.key.as_deref()), |headers| headers.key.as_deref());
        let lane = (name, key.filter(|_| order == Order::Key));
        let before = self.last.get(&lane).copied();
        self.last.insert(lane, at.max(before.unwrap_or(at)));
        if order != Order::None && before >= Some(at) {
            let what = || format!("{at:?} after {before:?} in lane {lane:?}: {delivery:?}");
            self.anomalies.note(Anomaly::Reordered, what);
        }
        let Some(headers) = headers else { return };
        let is_later = self.as_promised.contains(&(name, delivery.body.as_str()));
        if !is_as_promised(headers, promise) && !is_later {
            let what = || format!("{headers:?}, and promised was {promise:?}");
            self.anomalies.note(Anomaly::WrongPlace, what);
        }
        let is_right = match order {
            // Redis remembers all keys of the test, so a gap is visible in each lane.
            Order::Destination | Order::Key => self.follows(headers, before, lane),
            Order::None => headers.previous == 0,
        };
        if !is_right {
            let what = || format!("{headers:?} follows {before:?} in lane {lane:?}");
            self.anomalies.note(Anomaly::WrongPlace, what);
        }
    }

    /// True if a delivery names the previous message of its lane, which was at `before`.
    fn follows(&self, headers: &Headers, before: Option<Position>, lane: Lane) -> bool {
        let (named, last) = (headers.previous, before.map_or(0, |(_, sequence)| sequence));
        // The previous message was destroyed, and left the lane.
        let is_behind_destroyed = named > last && self.destroyed.contains(&(lane.0, named));
        // The first message after a destination was created again has no previous one.
        let is_again = self.subject(lane.0).is_removed && named == 0 && headers.sequence == 1;
        // Redis lost delivered messages before it, but no promised ones.
        let is_after_loss = self.losses == Losses::Unconfirmed
            && before.is_some_and(|(epoch, _)| epoch < Some(headers.epoch))
            && named <= last
            && self.last_promised(lane, headers.sequence) <= named;
        // The last messages were accepted, but destroyed before their acknowledgement counted.
        let is_after_destroyed = named < last
            && self.sequences.get(&lane).is_some_and(|all| {
                all.range(named + 1..=last).all(|at| self.destroyed.contains(&(lane.0, *at)))
            });
        named == last || is_behind_destroyed || is_after_destroyed || is_again || is_after_loss
    }

    /// The highest promised sequence of a lane below this one.
    fn last_promised(&self, lane: Lane, below: u64) -> u64 {
        let of_lane = self.sequences.get(&lane);
        of_lane.and_then(|all| all.range(..below).next_back().copied()).unwrap_or_default()
    }
}

fn position(promise: &Promise) -> Position {
    (promise.epoch, promise.sequence)
}

/// The number in a body, which gives the order of sending.
fn number(body: &str) -> u64 {
    let (_, rest) = body.split_once("\"number\":").unwrap_or(("", body));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or_default()
}

/// The headers without the attempt: a repeat may differ from the first delivery only in the attempt.
fn but_attempt(delivery: &Delivery) -> Option<Headers> {
    delivery.headers.clone().map(|headers| Headers { attempt: 0, ..headers })
}

fn is_as_promised(headers: &Headers, promise: Option<&Promise>) -> bool {
    // A message without an answer has no position to compare with.
    let Some(promise) = promise else { return true };
    promise.epoch.is_none_or(|epoch| epoch == headers.epoch)
        && promise.sequence == headers.sequence
        && promise.key == headers.key
        && promise.id.as_ref().is_none_or(|id| *id == headers.id)
}
