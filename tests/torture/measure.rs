//! Measures the time from a fault until messages flow again.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use crate::{
    inject::Struck,
    plan::{Between, Kind},
    support::{journal::Journal, ledger::Ledger, transformer::transformed},
    world::{FLOWING, PULLED, SUBJECTS},
};

/// The times at which messages of one destination were promised and delivered.
struct Flow {
    /// For each message, the earlier of promise and first delivery, ascending.
    begun: Vec<Instant>,
    /// For each message, the earliest completion among it and all later ones.
    ended: Vec<Instant>,
}

impl Flow {
    fn new(mut messages: Vec<(Instant, Instant)>) -> Flow {
        messages.sort_unstable();
        let begun = messages.iter().map(|(begun, _)| *begun).collect();
        let mut ended: Vec<Instant> = messages.iter().map(|(_, ended)| *ended).collect();
        for at in (1..ended.len()).rev() {
            ended[at - 1] = ended[at - 1].min(ended[at]);
        }
        Flow { begun, ended }
    }

    /// The time from `from` until the delivery of a message promised later.
    fn after(&self, from: Instant) -> Option<Duration> {
        let at = self.begun.partition_point(|begun| *begun < from);
        self.ended.get(at).map(|ended| ended.duration_since(from))
    }
}

/// Recovery times by kind of fault, ascending: until every affected destination had delivered a
/// message promised after the fault. `None` if one did not.
pub fn recoveries(
    ledger: &Ledger,
    journal: &Journal,
    faults: &[Struck],
) -> BTreeMap<Kind, Vec<Option<Duration>>> {
    let flows = flows(ledger, journal);
    let mut all: BTreeMap<Kind, Vec<Option<Duration>>> = BTreeMap::new();
    for fault in faults {
        let touched = match fault.planned.kind {
            Kind::Receiver(_) | Kind::Link(Between::Receiver, _) => {
                &flows[fault.planned.target..=fault.planned.target]
            }
            Kind::ReceiverKilled => &flows[FLOWING - 1..FLOWING],
            Kind::ConsumerKilled | Kind::HeldPurged => &flows[PULLED..=PULLED],
            _ => &flows[..FLOWING],
        };
        let times: Option<Vec<Duration>> =
            touched.iter().map(|flow| flow.after(fault.from)).collect();
        let longest = times.and_then(|times| times.into_iter().max());
        all.entry(fault.planned.kind).or_default().push(longest);
    }
    all.values_mut().for_each(|times| times.sort_unstable());
    all
}

fn flows(ledger: &Ledger, journal: &Journal) -> Vec<Flow> {
    let mut first: HashMap<(String, String), Instant> = HashMap::new();
    for (delivery, at) in journal.all().into_iter().zip(journal.times()) {
        first.entry((delivery.destination, delivery.body)).or_insert(at);
    }
    let mut by_destination: Vec<Vec<(Instant, Instant)>> = vec![Vec::new(); SUBJECTS.len()];
    for (promise, promised) in ledger.all().into_iter().zip(ledger.times()) {
        let index = SUBJECTS.iter().position(|one| one.destination == promise.destination);
        let index = index.expect("each destination is named");
        let is_transformed = SUBJECTS[index].is_transformed;
        let body = if is_transformed { transformed(&promise.body) } else { promise.body };
        if let Some(delivered) = first.get(&(promise.destination, body)) {
            let times = (promised.min(*delivered), promised.max(*delivered));
            by_destination[index].push(times);
        }
    }
    by_destination.into_iter().map(Flow::new).collect()
}
