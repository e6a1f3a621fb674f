//! The results for the messages of a run, in any kind of measurement.

use std::fmt;

use serde::Serialize;

use super::verify::Verified;

/// The numbers of accepted and delivered messages, and whether deliveries are complete and in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// True if every accepted message arrived, and no other message.
    pub complete: bool,
    /// True if first deliveries were in order in each lane.
    pub in_order: bool,
    pub accepted: u64,
    pub delivered: u64,
    pub repeats: u64,
    pub foreign: u64,
}

impl Counters {
    /// The counters before any message is sent.
    pub const NOTHING: Counters = Counters {
        complete: true,
        in_order: true,
        accepted: 0,
        delivered: 0,
        repeats: 0,
        foreign: 0,
    };

    /// The counters of one phase.
    pub fn of(judged: &Verified) -> Counters {
        let &Verified { accepted, delivered, in_order, repeats, foreign, .. } = judged;
        let complete = delivered == accepted && foreign == 0;
        Counters { complete, in_order, accepted, delivered, repeats, foreign }
    }

    /// Adds another phase.
    pub fn add(&mut self, other: Counters) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.repeats += other.repeats;
        self.foreign += other.foreign;
        self.judge_also(other);
    }

    /// Clears `complete` and `in_order` if the other phase does not have them.
    pub fn judge_also(&mut self, other: Counters) {
        self.complete &= other.complete;
        self.in_order &= other.in_order;
    }

    /// True if every message arrived, in order.
    pub fn is_well(&self) -> bool {
        self.complete && self.in_order
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |is: bool| if is { "yes" } else { "NO" };
        write!(f, "Complete: {}   In order: {}", yes(self.complete), yes(self.in_order))
    }
}
