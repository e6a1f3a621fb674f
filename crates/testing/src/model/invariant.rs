//! Invariants that hold in every state of the model.

use std::collections::BTreeSet;

use domain::{Ordering, Sequence, Stage};
use store::Claimers;

use super::state::{Destination, Lane, Name, Stand, State};

impl State {
    /// The first broken invariant.
    pub fn broken_invariant(&self) -> Option<String> {
        self.destinations.iter().find_map(|(name, destination)| {
            let broken = broken(destination).or_else(|| {
                let lives = !destination.deleted;
                lives.then(|| self.missing_hint(name, destination)).flatten()
            });
            broken.map(|what| format!("{name}: {what}"))
        })
    }

    /// Finds a missing hint. Hints may name too many lanes, never too few.
    fn missing_hint(&self, name: Name, destination: &Destination) -> Option<String> {
        let active = match destination.definition.claimers() {
            Claimers::Builtin => &self.active_builtin,
            Claimers::Worker => &self.active_worker,
        };
        let is_told = active.contains(name) || destination.rest.is_some();
        if !destination.waiting.is_empty() && !is_told {
            return Some("its claimers are not told that messages wait".to_owned());
        }
        if destination.withdrawals() > 0 && !self.withdrawing.contains(name) {
            return Some("the owner is not told that there are withdrawals".to_owned());
        }
        for lane in destination.lanes_in_use() {
            if destination.head(lane).is_none_or(|(_, head)| !head.may_leave()) {
                continue;
            }
            let of_destination = self.releasable.get(name);
            let of_lane = match lane.name() {
                None => of_destination,
                Some(name) => destination.lanes.get(&name),
            };
            match (of_destination, of_lane) {
                (Some(looked_at), Some(not_before)) if looked_at <= not_before => {}
                _ => return Some(format!("the owner is not told that lane {lane:?} may move")),
            }
        }
        None
    }
}

fn broken(destination: &Destination) -> Option<String> {
    let waiting: BTreeSet<Sequence> = destination.waiting.iter().copied().collect();
    let standing = destination.messages.iter();
    let standing = standing.filter(|(_, message)| message.stand == Stand::Waiting);
    if destination.waiting.len() != waiting.len()
        || !standing.map(|(sequence, _)| sequence).eq(&waiting)
    {
        return Some("each waiting message is to be claimed once".to_owned());
    }
    if destination.messages.keys().any(|&sequence| sequence > destination.last) {
        return Some("a message has a number that was not stamped".to_owned());
    }
    let Destination { delivered, dropped, dead_lettered, cancelled, .. } = destination;
    if destination.last != destination.pending() + delivered + dropped + dead_lettered + cancelled {
        return Some("ingested is not pending + what has left".to_owned());
    }
    for (sequence, message) in &destination.messages {
        if message.tombstone.is_some() && message.stand != Stand::Ready {
            return Some(format!("the tombstone {sequence} is not ready"));
        }
        if matches!(message.stand, Stand::Halted(Stage::Delivery))
            && !destination.is_head(*sequence)
            && !message.is_damaged()
        {
            return Some(format!("{sequence} was halted in delivery, and is no head"));
        }
    }
    let Destination { definition, .. } = destination;
    if definition.serial && definition.ordering != Ordering::None {
        let mut lanes = destination.lanes_in_use().into_iter();
        return lanes.find_map(|lane| broken_serial(destination, lane));
    }
    let held = destination.count(|message| matches!(message.stand, Stand::Held { .. }));
    (held > 0).then(|| "a message is held where nothing is serial".to_owned())
}

/// In a serial lane, only one message at a time may be processed: the first unfinished one.
fn broken_serial(destination: &Destination, lane: Lane) -> Option<String> {
    let first = destination.unfinished(lane);
    for (sequence, message) in destination.lane(lane).filter(|(_, m)| !m.is_finished()) {
        let is_held = matches!(message.stand, Stand::Held { .. });
        if is_held == (first == Some(sequence)) {
            return Some(format!("serial lane {lane:?}: {sequence} stands {:?}", message.stand));
        }
    }
    None
}
