//! Checks the order: compares the journal of a receiver with the log of a destination. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::{Ordering, Position};
use serde::{Deserialize, Serialize};

/// The most violations that a report lists. It counts all of them.
const LISTED_MAX: usize = 1_000;

/// A line of the journal: a delivery that the receiver accepted.
#[derive(Debug, Clone, Deserialize)]
pub struct Line {
    /// The destination. A line without a destination applies to all.
    pub destination: Option<String>,
    /// The ordering key.
    pub key: Option<String>,
    /// The position. No two messages have the same position. In a lane, the lower position comes first.
    #[serde(flatten)]
    pub position: Position,
    /// The id.
    pub id: Option<String>,
}

/// An entry of the log.
#[derive(Debug, Clone, Deserialize)]
pub struct Logged {
    /// The position. No two messages have the same position. In a lane, the lower position comes first.
    #[serde(flatten)]
    pub position: Position,
    /// The ordering key.
    pub key: Option<String>,
    /// The id.
    pub id: String,
    /// `delivered`, or the other state in which the message left.
    pub state: String,
}

/// The kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The receiver first accepted the message after a later message of its lane.
    Reordered,
    /// According to the log the message was delivered, but it is not in the journal.
    Missing,
    /// The message is in the journal, but the destination never had it.
    Unknown,
    /// The journal and the log, or two lines of the journal, have different ids or keys for the message.
    Different,
    /// According to the log, the message left after a later message of its lane.
    LeftOutOfOrder,
}

/// All kinds, in the order of the report.
pub const KINDS: [Kind; 5] =
    [Kind::Reordered, Kind::Missing, Kind::Unknown, Kind::Different, Kind::LeftOutOfOrder];

/// A message that violates the order, or is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The kind of the violation.
    pub kind: Kind,
    /// The position of the message.
    #[serde(flatten)]
    pub position: Position,
    /// The ordering key of the message.
    pub key: Option<String>,
    /// The later message that came before this message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// The number of the line in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// The numbers of the comparison, and the violations.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Lines of the journal that concern the destination and the range.
    pub journal_lines: u64,
    /// Different messages in these lines.
    pub journal_messages: u64,
    /// Lines that repeat an earlier line: delivery is at least once.
    pub repeats: u64,
    /// Lanes in the journal.
    pub lanes: u64,
    /// Entries of the log in the range.
    pub log_messages: u64,
    /// Entries of the log in the range that were delivered.
    pub log_delivered: u64,
    /// Messages that the receiver accepted, but that left without a delivery: the answer of the receiver was lost, and
    /// then somebody cancelled them or made them dead letters.
    pub withdrawn: u64,
    /// Messages in the journal that are still pending: their delivery is not settled yet.
    pub pending: u64,
    /// Messages in the journal that the log has already forgotten. They cannot be checked further.
    pub forgotten: u64,
    /// The number of violations of each kind.
    pub counts: BTreeMap<Kind, u64>,
    /// The first violations.
    pub violations: Vec<Violation>,
}

/// A message of the journal.
#[derive(Debug, Clone)]
struct Accepted {
    key: Option<String>,
    id: Option<String>,
    line: u64,
}

/// Compares a journal with a log.
pub struct Check {
    ordering: Ordering,
    accepted: BTreeMap<Position, Accepted>,
    /// The highest accepted position of each lane.
    highest: HashMap<String, Position>,
    report: Report,
}

impl Check {
    /// A check for a destination with this ordering.
    pub fn new(ordering: Ordering) -> Check {
        let (accepted, highest, report) = Default::default();
        Check { ordering, accepted, highest, report }
    }

    /// The lane of a message; `None` without ordering.
    fn lane<'a>(&self, key: Option<&'a str>) -> Option<&'a str> {
        match self.ordering {
            Ordering::Destination => Some(""),
            Ordering::Key => Some(key.unwrap_or_default()),
            Ordering::None => None,
        }
    }

    fn violates(
        &mut self,
        kind: Kind,
        (position, key): (Position, Option<String>),
        after: Option<Position>,
        line: Option<u64>,
    ) {
        *self.report.counts.entry(kind).or_default() += 1;
        if self.report.violations.len() < LISTED_MAX {
            self.report.violations.push(Violation { kind, position, key, after, line });
        }
    }

    /// Adds the next line of the journal.
    pub fn accepted(&mut self, line: Line, number: u64) {
        self.report.journal_lines += 1;
        let position = line.position;
        let key = line.key.filter(|key| !key.is_empty());
        if let Some(first) = self.accepted.get(&position) {
            let has_same_id = first.id.is_none() || line.id.is_none() || first.id == line.id;
            let is_same = has_same_id && first.key == key;
            self.report.repeats += 1;
            if !is_same {
                self.violates(Kind::Different, (position, key), None, Some(number));
            }
            return;
        }
        if let Some(lane) = self.lane(key.as_deref()) {
            let highest = self.highest.entry(lane.to_owned()).or_insert(position);
            let before = *highest;
            *highest = before.max(position);
            if before > position {
                let what = (position, key.clone());
                self.violates(Kind::Reordered, what, Some(before), Some(number));
            }
        }
        self.accepted.insert(position, Accepted { key, id: line.id, line: number });
    }

    /// Compares with the log, which is in the order of leaving. Returns the messages of the journal that are not in the
    /// log.
    pub fn compare(&mut self, log: &[Logged]) -> Vec<Position> {
        self.report.lanes = self.highest.len() as u64;
        self.report.journal_messages = self.accepted.len() as u64;
        let mut known = BTreeSet::new();
        let mut highest: HashMap<String, Position> = HashMap::new();
        for one in log {
            let position = one.position;
            let key = one.key.clone().filter(|key| !key.is_empty());
            known.insert(position);
            self.report.log_messages += 1;
            if one.state == "delivered" {
                self.report.log_delivered += 1;
                if let Some(lane) = self.lane(key.as_deref()) {
                    let last = highest.entry(lane.to_owned()).or_insert(position);
                    let before = *last;
                    *last = before.max(position);
                    if before > position {
                        let what = (position, key.clone());
                        self.violates(Kind::LeftOutOfOrder, what, Some(before), None);
                    }
                }
            }
            match self.accepted.get(&position).cloned() {
                None if one.state == "delivered" => {
                    self.violates(Kind::Missing, (position, key), None, None);
                }
                None => {}
                Some(Accepted { key: of_journal, id, line }) => {
                    let has_same_id = id.as_ref().is_none_or(|id| *id == one.id);
                    if !has_same_id || of_journal != key {
                        self.violates(Kind::Different, (position, key), None, Some(line));
                    }
                    self.report.withdrawn += u64::from(one.state != "delivered");
                }
            }
        }
        self.accepted.keys().filter(|position| !known.contains(position)).copied().collect()
    }

    /// Counts a message of the journal that is still pending, or a dead letter.
    pub fn is_pending(&mut self) {
        self.report.pending += 1;
    }

    /// Counts messages of the journal that the service has forgotten, and that the destination may have had.
    pub fn are_forgotten(&mut self, count: u64) {
        self.report.forgotten += count;
    }

    /// Notes a message of the journal that the destination never had.
    pub fn is_unknown(&mut self, position: Position) {
        let of_journal = self.accepted.get(&position);
        let (key, line) = of_journal.map_or((None, None), |one| (one.key.clone(), Some(one.line)));
        self.violates(Kind::Unknown, (position, key), None, line);
    }

    /// The report.
    pub fn report(mut self) -> Report {
        self.report.violations.sort_by_key(|one| (one.kind, one.position));
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, epoch: u64, sequence: u64) -> Line {
        let id = Some(format!("id-{sequence}"));
        let position = Position { epoch, sequence };
        Line { destination: None, key: Some(key.to_owned()), position, id }
    }

    fn logged(key: &str, sequence: u64, state: &str) -> Logged {
        let (key, id) = (Some(key.to_owned()), format!("id-{sequence}"));
        Logged { position: Position { epoch: 1, sequence }, key, id, state: state.to_owned() }
    }

    /// The kinds of violations, and the messages.
    fn found(ordering: Ordering, journal: &[Line], log: &[Logged]) -> Vec<(Kind, u64)> {
        let mut check = Check::new(ordering);
        for (at, line) in journal.iter().enumerate() {
            check.accepted(line.clone(), at as u64 + 1);
        }
        for position in check.compare(log) {
            check.is_unknown(position);
        }
        let report = check.report();
        report.violations.iter().map(|one| (one.kind, one.position.sequence)).collect()
    }

    #[test]
    fn repeats_are_allowed_and_lanes_are_independent() {
        let journal = [(1, "a"), (3, "a"), (2, "b"), (1, "a"), (3, "a"), (5, "a")];
        let journal: Vec<Line> = journal.map(|(sequence, key)| line(key, 1, sequence)).to_vec();
        let log = [(1, "a"), (3, "a"), (2, "b"), (5, "a")];
        let log: Vec<Logged> =
            log.map(|(sequence, key)| logged(key, sequence, "delivered")).to_vec();
        assert_eq!(found(Ordering::Key, &journal, &log), []);
        let mut check = Check::new(Ordering::Key);
        journal.into_iter().for_each(|line| check.accepted(line, 1));
        assert_eq!(check.compare(&log), []);
        let report = check.report();
        assert_eq!((report.lanes, report.journal_messages, report.repeats), (2, 4, 2));
    }

    #[test]
    fn what_is_wrong_is_found() {
        let delivered = |sequences: &[u64]| -> Vec<Logged> {
            sequences.iter().map(|at| logged("a", *at, "delivered")).collect()
        };
        let accepted = |sequences: &[u64]| -> Vec<Line> {
            sequences.iter().map(|at| line("a", 1, *at)).collect()
        };
        for ordering in [Ordering::Key, Ordering::Destination] {
            let two_before_one = found(ordering, &accepted(&[2, 1]), &delivered(&[1, 2]));
            assert_eq!(two_before_one, [(Kind::Reordered, 1)]);
        }
        assert_eq!(found(Ordering::None, &accepted(&[2, 1]), &delivered(&[1, 2])), []);
        let lost = found(Ordering::Key, &accepted(&[1, 3]), &delivered(&[1, 2, 3]));
        assert_eq!(lost, [(Kind::Missing, 2)]);
        let invented = found(Ordering::Key, &accepted(&[1, 2]), &delivered(&[1]));
        assert_eq!(invented, [(Kind::Unknown, 2)]);
        let left = found(Ordering::Key, &accepted(&[1, 2]), &delivered(&[2, 1]));
        assert_eq!(left, [(Kind::LeftOutOfOrder, 1)]);
        let mut other = accepted(&[1]);
        other[0].id = Some("other".to_owned());
        assert_eq!(found(Ordering::Key, &other, &delivered(&[1])), [(Kind::Different, 1)]);
        // Without an id, only the position counts.
        other[0].id = None;
        assert_eq!(found(Ordering::Key, &other, &delivered(&[1])), []);
        // What left without a delivery need not be there, and a later epoch comes later.
        assert_eq!(found(Ordering::Key, &[], &[logged("a", 1, "cancelled")]), []);
        let epochs = [line("a", 1, 9), line("a", 2, 4)];
        let kinds = found(Ordering::Key, &epochs, &[]);
        assert_eq!(kinds, [(Kind::Unknown, 9), (Kind::Unknown, 4)]);
    }
}
