//! The anomalies that an examination may find, by name.

use std::{collections::BTreeMap, fmt};

/// The most anomalies of each kind to report in full.
const TOLD_MAX: usize = 5;

/// A violated promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Promised, not delivered, and no longer in Redis.
    Lost,
    /// A first delivery after one with a higher position in its lane; or positions against the
    /// order in which a producer sent.
    Reordered,
    /// Delivered, although no producer sent it.
    Invented,
    /// One (epoch, sequence) for two messages, or two for one message.
    DoubledSequence,
    /// Delivered at a promised position, with another body.
    BodyMismatch,
    /// A repeat that differs from the first delivery in more than the attempt.
    UnrecognisableRepeat,
    /// A delivery whose headers differ from the promise, or name the wrong previous message.
    WrongPlace,
    /// Promised, not delivered by the deadline, and still in Redis; or another step that did not complete.
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

/// Anomalies by name: their number, and the first ones in full.
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

    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
