//! The messages that the receiver accepted and the promises to producers, and the rules for both.

use std::collections::{BTreeMap, BTreeSet};

use domain::Sequence;

use crate::model::{
    op::Given,
    state::{Destination, Lane},
};

/// A message's position in its destination's order.
pub type Position = (u64, Sequence);

/// Knowledge outside Redis, which survives a loss in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Journal {
    /// Stamped messages: lane, and body as it arrived.
    stamped: BTreeMap<Position, (Lane, String)>,
    /// Positions promised to a producer.
    promised: BTreeSet<Position>,
    /// Messages that an operator removed.
    withdrawn: BTreeSet<Position>,
    /// First acceptances by the receiver, in order.
    accepted: BTreeMap<Lane, Vec<(Position, String)>>,
    /// True if Redis lost data, so that promised messages may be gone.
    pub may_have_lost: bool,
}

/// The output of these worlds' transforms for a body.
pub fn output_of(body: &str) -> String {
    format!("done {body}")
}

impl Journal {
    /// Checks the data in Redis after a call.
    pub fn look(&mut self, destination: &Destination) -> Result<(), String> {
        for (sequence, message) in &destination.messages {
            let position = (message.epoch, *sequence);
            if message.tombstone.is_some() {
                self.withdrawn.insert(position);
                continue;
            }
            let lane = destination.lane_of(*sequence, message);
            let body = message.body.strip_prefix("done ").unwrap_or(&message.body);
            let known = self.stamped.entry(position).or_insert_with(|| (lane, body.to_owned()));
            if *known != (lane, body.to_owned()) {
                return Err(format!("{position:?} names both {body:?} and {known:?}"));
            }
        }
        Ok(())
    }

    /// The destination was removed with all pending messages: they need not arrive.
    pub fn remove_all(&mut self) {
        self.withdrawn.extend(self.stamped.keys());
    }

    /// A producer was promised this position.
    pub fn promise(&mut self, position: Position) {
        self.promised.insert(position);
    }

    /// The receiver gets a message. True if the receiver has accepted it before.
    pub fn receive(&mut self, lane: Lane, message: &Given) -> Result<bool, String> {
        let position = (message.epoch, message.sequence);
        let Some((stamped_in, body)) = self.stamped.get(&position) else {
            return Err(format!("{position:?} was delivered and never stamped"));
        };
        if *stamped_in != lane || message.body != output_of(body) {
            return Err(format!("{message:?} was delivered in {lane:?}; stamped: {body:?}"));
        }
        let accepted = self.accepted.entry(lane).or_default();
        if accepted.last().is_some_and(|(last, _)| position <= *last) {
            return match accepted
                .iter()
                .any(|(known, body)| (known, body) == (&position, &message.body))
            {
                true => Ok(true),
                false => Err(format!("{position:?} came after {:?}", accepted.last())),
            };
        }
        let is_accepted = |other: &Position| accepted.iter().any(|(known, _)| known == other);
        let before = self.stamped.range(..position).filter(|(_, (of, _))| *of == lane);
        let passed_over = before
            .map(|(other, _)| other)
            .find(|other| !is_accepted(other) && !self.withdrawn.contains(other));
        if let Some(other) = passed_over.filter(|_| !self.may_have_lost) {
            return Err(format!("{position:?} came before {other:?}"));
        }
        accepted.push((position, message.body.clone()));
        Ok(false)
    }

    /// At the end: a promised message that is missing, if any.
    pub fn missing(&self) -> Option<Position> {
        let accepted: BTreeSet<Position> =
            self.accepted.values().flatten().map(|(position, _)| *position).collect();
        let has_left =
            |position: &&Position| accepted.contains(position) || self.withdrawn.contains(position);
        self.promised
            .iter()
            .find(|position| !has_left(position))
            .copied()
            .filter(|_| !self.may_have_lost)
    }

    /// How many positions were stamped, over all epochs.
    pub fn stamped(&self) -> usize {
        self.stamped.len()
    }
}
