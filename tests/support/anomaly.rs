//! What an examination may find, by name.

use std::{collections::BTreeMap, fmt};

/// Of each anomaly so many are told in full.
const TOLD_MAX: usize = 5;

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
