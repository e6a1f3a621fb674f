//! Holds what receivers journalled against what producers were promised and what Redis still
//! holds, and names each thing that must not be.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use super::{
    journal::{Delivery, Headers, Journal},
    ledger::{Ledger, Promise},
    transformer::transformed,
};

/// Of each anomaly so many are told in full.
const TOLD_MAX: usize = 5;

/// What stays in order in a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All its messages.
    Destination,
    /// The messages of one ordering key.
    Key,
    /// Nothing.
    None,
}

/// How a destination is examined.
#[derive(Debug, Clone)]
pub struct Subject {
    pub destination: &'static str,
    pub order: Order,
    /// The transform puts its mark around each body.
    pub is_transformed: bool,
}

/// A thing that must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Promised, not delivered, and no longer in Redis.
    Lost,
    /// A first delivery after one of a higher place in its lane; or places against the order in
    /// which a producer sent.
    Reordered,
    /// Delivered, and nobody sent it in.
    Invented,
    /// One epoch and sequence for two messages, or two for one message.
    DoubledSequence,
    /// Delivered at a promised place, with another body.
    BodyMismatch,
    /// A repeat that differs from the first in more than its attempt.
    UnrecognisableRepeat,
    /// A delivery whose headers are not as promised, or that names another one as the one before.
    WrongPlace,
    /// Promised, not delivered by the deadline, and still in Redis; or anything else that did not
    /// come to its end.
    Stuck,
}

impl Anomaly {
    pub const ALL: [Anomaly; 8] = [
        Anomaly::Lost,
        Anomaly::Reordered,
        Anomaly::Invented,
        Anomaly::DoubledSequence,
        Anomaly::BodyMismatch,
        Anomaly::UnrecognisableRepeat,
        Anomaly::WrongPlace,
        Anomaly::Stuck,
    ];
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anomaly::Lost => "lost",
            Anomaly::Reordered => "reordered",
            Anomaly::Invented => "invented",
            Anomaly::DoubledSequence => "doubled sequence",
            Anomaly::BodyMismatch => "body mismatch",
            Anomaly::UnrecognisableRepeat => "unrecognisable repeat",
            Anomaly::WrongPlace => "wrong place",
            Anomaly::Stuck => "stuck",
        })
    }
}

/// Anomalies by name: how many, and the first of each in full.
#[derive(Debug, Default)]
pub struct Anomalies {
    counts: BTreeMap<Anomaly, usize>,
    pub told: Vec<String>,
}

impl Anomalies {
    pub fn note(&mut self, anomaly: Anomaly, what: impl FnOnce() -> String) {
        let count = self.counts.entry(anomaly).or_default();
        *count += 1;
        if *count <= TOLD_MAX {
            self.told.push(format!("{anomaly}: {}", what()));
        }
    }

    pub fn count(&self, anomaly: Anomaly) -> usize {
        self.counts.get(&anomaly).copied().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// What was found to be right.
#[derive(Debug, Default)]
pub struct Found {
    /// Different messages.
    pub messages: usize,
    /// Deliveries beyond the first of a message.
    pub repeats: usize,
    /// The same by destination.
    pub repeats_of: BTreeMap<String, usize>,
    /// Deliveries that said that they were not the first attempt.
    pub later_attempts: usize,
}

/// Destination and sequence of what is pending in Redis.
pub type Held = HashSet<(String, u64)>;
type Lane<'a> = (&'a str, Option<&'a str>);
type Place = (Option<u64>, u64);

/// Nothing lost, nothing invented, each lane in order, repeats the same to the byte. `subjects`
/// name all destinations. Takes time in proportion to promises and deliveries.
pub fn examine(
    ledger: &Ledger,
    journal: &Journal,
    held: &Held,
    subjects: &[Subject],
) -> (Found, Anomalies) {
    let (promises, deliveries) = (ledger.all(), journal.all());
    let mut examiner = Examiner {
        ledger,
        subjects,
        promised: HashMap::new(),
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
    for delivery in &deliveries {
        examiner.delivery(delivery);
    }
    for ((destination, body), promise) in &examiner.promised {
        if examiner.first.contains_key(&(*destination, body.as_str())) {
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
    /// By destination and the body that must be delivered.
    promised: HashMap<(&'a str, String), &'a Promise>,
    /// By destination and place.
    at: HashMap<(&'a str, Place), &'a Promise>,
    /// First deliveries, by destination and body.
    first: HashMap<(&'a str, &'a str), &'a Delivery>,
    /// The same by destination and place.
    seen_at: HashMap<(&'a str, Place), &'a Delivery>,
    last: HashMap<Lane<'a>, Place>,
    found: Found,
    anomalies: Anomalies,
}

impl<'a> Examiner<'a> {
    fn subject(&self, destination: &str) -> &'a Subject {
        let mut all = self.subjects.iter();
        all.find(|subject| subject.destination == destination).expect("each destination is named")
    }

    /// Each producer's messages got ascending places in each destination.
    fn promises_in_order(&mut self, promises: &'a [Promise]) {
        let mut by_producer: HashMap<(&str, &str), Vec<&Promise>> = HashMap::new();
        for promise in promises {
            let from = (promise.producer.as_str(), promise.destination.as_str());
            by_producer.entry(from).or_default().push(promise);
        }
        for sent in by_producer.values_mut() {
            // Answers to what was sent again may come in another order than it was first sent in.
            sent.sort_by_key(|promise| number(&promise.body));
            for pair in sent.windows(2) {
                let [before, after] = pair else { continue };
                if place(before) >= place(after) {
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
        if let Some(other) = self.at.insert((destination, place(promise)), promise)
            && other.body != promise.body
        {
            let what = || format!("{other:?} and {promise:?}");
            self.anomalies.note(Anomaly::DoubledSequence, what);
        }
    }

    fn delivery(&mut self, delivery: &'a Delivery) {
        let name = delivery.destination.as_str();
        if let Some(headers) = &delivery.headers {
            self.found.later_attempts += usize::from(headers.attempt > 1);
        }
        if let Some(first) = self.first.get(&(name, delivery.body.as_str())) {
            if but_attempt(first) != but_attempt(delivery) {
                let what = || format!("{delivery:?} repeats {first:?}");
                self.anomalies.note(Anomaly::UnrecognisableRepeat, what);
            }
            self.found.repeats += 1;
            *self.found.repeats_of.entry(name.to_owned()).or_default() += 1;
            return;
        }
        self.first.insert((name, &delivery.body), delivery);
        let promise = self.promised.get(&(name, delivery.body.clone())).copied();
        if promise.is_none() && !self.is_doubtful(delivery) {
            self.unknown(delivery);
            return;
        }
        self.first_delivery(delivery, promise);
    }

    /// Sent in, and the answer was lost.
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
        // Over TCP only the promise says what its place is.
        let at = headers.map(|headers| (Some(headers.epoch), headers.sequence));
        let Some(at) = at.or(promise.map(place)) else { return };
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
        if !is_as_promised(headers, promise) {
            let what = || format!("{headers:?}, and promised was {promise:?}");
            self.anomalies.note(Anomaly::WrongPlace, what);
        }
        let before = before.map_or(0, |(_, sequence)| sequence);
        let is_right = match order {
            // There are fewer keys than are remembered, so a gap is visible in each lane.
            Order::Destination | Order::Key => headers.previous == before,
            Order::None => headers.previous == 0,
        };
        if !is_right {
            let what = || format!("{headers:?} follows {before} in lane {lane:?}");
            self.anomalies.note(Anomaly::WrongPlace, what);
        }
    }
}

fn place(promise: &Promise) -> Place {
    (promise.epoch, promise.sequence)
}

/// A body's number, which says when its producer sent it.
fn number(body: &str) -> u64 {
    let (_, rest) = body.split_once("\"number\":").unwrap_or(("", body));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or_default()
}

/// A repeat has everything of the first but the number of its attempt.
fn but_attempt(delivery: &Delivery) -> Option<Headers> {
    delivery.headers.clone().map(|headers| Headers { attempt: 0, ..headers })
}

fn is_as_promised(headers: &Headers, promise: Option<&Promise>) -> bool {
    // What was sent in and not answered has no place to compare with.
    let Some(promise) = promise else { return true };
    promise.epoch.is_none_or(|epoch| epoch == headers.epoch)
        && promise.sequence == headers.sequence
        && promise.key == headers.key
        && promise.id.as_ref().is_none_or(|id| *id == headers.id)
}
