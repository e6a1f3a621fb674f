//! Detects a new primary that lacks writes that replicas had confirmed. Sentinel and Cluster prefer the most advanced
//! replica, but may promote another replica: because of a priority, or because the most advanced replica was
//! unreachable. The missing writes are lost, and operators must know.
//!
//! Each confirmed call records the replication offset. A server that takes over starts a new history, and reports how
//! much of the previous history it has (`master_replid2` and `second_repl_offset` of `INFO replication`).

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// The most reported takeovers to remember.
const REPORTED_MAX: usize = 64;

/// A server's position in the replication history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replication {
    history: String,
    offset: u64,
    /// The previous history, and the offset up to which the server has it.
    before: Option<(String, u64)>,
}

impl Replication {
    /// Reads `INFO replication`.
    pub(super) fn read(info: &str) -> Option<Replication> {
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
            lines.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        // Redis reports -1 if there is no previous history.
        let first_other = field("second_repl_offset").and_then(|text| text.parse::<u64>().ok());
        let before = field("master_replid2").zip(first_other);
        Some(Replication {
            history: field("master_replid")?.to_owned(),
            offset: field("master_repl_offset")?.parse().ok()?,
            before: before.map(|(history, first)| (history.to_owned(), first.saturating_sub(1))),
        })
    }
}

/// The highest confirmed offset of a history.
struct Confirmed {
    history: String,
    offset: u64,
}

/// The confirmed offsets that this pod knows, by slot, because a cluster's slots move.
#[derive(Default)]
pub(super) struct Takeovers {
    by_slot: Mutex<HashMap<u16, Confirmed>>,
    /// The histories that were already reported.
    reported: Mutex<VecDeque<String>>,
}

impl Takeovers {
    /// Records a call that ran on this slot's server, confirmed or not. Logs an error if that server took over
    /// without all writes that were confirmed before.
    pub(super) fn note(&self, slot: u16, seen: &Replication, is_confirmed: bool) {
        let Some((confirmed, kept)) = self.compare(slot, seen, is_confirmed) else { return };
        let mut reported = self.reported.lock();
        if reported.contains(&seen.history) {
            return;
        }
        reported.truncate(REPORTED_MAX - 1);
        reported.push_front(seen.history.clone());
        telemetry::confirmed_lost();
        tracing::error!(
            confirmed,
            kept,
            "the Redis that took over lacks writes that replicas had confirmed: acknowledged messages may \
             be lost"
        );
    }

    /// Records the offset. If the server lacks confirmed writes, returns the confirmed offset of the previous
    /// history, and the offset up to which the server has that history.
    fn compare(&self, slot: u16, seen: &Replication, is_confirmed: bool) -> Option<(u64, u64)> {
        let mut by_slot = self.by_slot.lock();
        let mut lost = None;
        let mut offset = if is_confirmed { seen.offset } else { 0 };
        match by_slot.get(&slot) {
            Some(known) if known.history == seen.history => offset = offset.max(known.offset),
            Some(known) => {
                let kept = seen.before.as_ref().filter(|(history, _)| *history == known.history);
                // An unrelated history cannot be compared: several servers took over in turn, or
                // the slot moved.
                lost = kept.map(|(_, kept)| (known.offset, *kept));
            }
            None if !is_confirmed => return None,
            None => {}
        }
        by_slot.insert(slot, Confirmed { history: seen.history.clone(), offset });
        lost.filter(|(confirmed, kept)| confirmed > kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(history: &str, offset: u64, before: Option<(&str, u64)>) -> Replication {
        let before = before.map(|(history, kept)| (history.to_owned(), kept));
        Replication { history: history.to_owned(), offset, before }
    }

    #[test]
    fn what_the_server_says_is_read() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid:b\r\nmaster_replid2:a\r\n\
                    master_repl_offset:120\r\nsecond_repl_offset:101\r\n";
        assert_eq!(Replication::read(info), Some(at("b", 120, Some(("a", 100)))));
        let first = info.replace("second_repl_offset:101", "second_repl_offset:-1");
        assert_eq!(Replication::read(&first), Some(at("b", 120, None)));
        assert_eq!(Replication::read("# Replication\r\nrole:master\r\n"), None);
    }

    #[test]
    fn promoted_server_lacks_what_was_confirmed_beyond_its_data() {
        for (confirmed, kept, lost) in [(100, 100, None), (101, 100, Some((101, 100)))] {
            let takeovers = Takeovers::default();
            assert_eq!(takeovers.compare(1, &at("a", confirmed, None), true), None);
            // Unconfirmed writes may be lost.
            assert_eq!(takeovers.compare(1, &at("a", 150, None), false), None);
            let after = at("b", 160, Some(("a", kept)));
            assert_eq!(takeovers.compare(2, &after, true), None, "nothing is known of this slot");
            assert_eq!(takeovers.compare(1, &after, false), lost);
            assert_eq!(takeovers.compare(1, &after, true), None, "it is reported once");
            // After two takeovers, a comparison is impossible.
            assert_eq!(takeovers.compare(1, &at("d", 170, Some(("c", 1))), true), None);
        }
    }
}
