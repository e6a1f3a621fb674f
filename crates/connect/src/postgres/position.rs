//! Positions: the timeline of the server, the place of the commit in its log, and the number of the change in the
//! transaction. As texts, positions sort in the order of commits, even after a failover.

use std::fmt;

use pgwire_replication::Lsn;

/// A position. Change 0 comes before all changes of a transaction with this commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub timeline: u32,
    pub commit: Lsn,
    pub change: u32,
}

impl Position {
    pub fn parse(text: &str) -> Option<Position> {
        let mut parts = text.split('-');
        let timeline = u32::from_str_radix(parts.next()?, 16).ok()?;
        let commit = Lsn::parse(parts.next()?).ok()?;
        let position = Position { timeline, commit, change: parts.next()?.parse().ok()? };
        // Refuse other spellings: only one spelling sorts correctly.
        (position.to_string() == text).then_some(position)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { timeline, commit, change } = self;
        let (high, low) = (commit.0 >> 32, commit.0 & 0xffff_ffff);
        write!(f, "{timeline:08X}-{high:08X}/{low:08X}-{change:010}")
    }
}

/// The timelines of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timelines {
    pub current: u32,
    /// The earlier timelines, the oldest first, each with its end.
    past: Vec<(u32, Lsn)>,
}

impl Timelines {
    /// Reads the history file of the current timeline.
    pub fn parse(current: u32, history: &str) -> Timelines {
        let past = history.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, Lsn::parse(words.next()?).ok()?))
        });
        Timelines { current, past: past.collect() }
    }

    /// The end of an earlier timeline. `None`: the timeline is not in this server's past.
    pub fn end_of(&self, timeline: u32) -> Option<Lsn> {
        self.past.iter().find(|(past, _)| *past == timeline).map(|(_, end)| *end)
    }

    /// The position of a change. A commit keeps the timeline on which it was made.
    pub fn at(&self, commit: Lsn, change: u32) -> Position {
        let earlier = self.past.iter().find(|(_, end)| commit < *end);
        let timeline = earlier.map_or(self.current, |(timeline, _)| *timeline);
        Position { timeline, commit, change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_as_texts_in_the_order_of_commits() {
        let of = |timeline, commit, change| Position { timeline, commit: Lsn(commit), change };
        let positions = [
            of(1, 9, 0),
            of(1, 9, 9),
            of(1, 9, 10),
            of(1, 10, 0),
            of(1, 0x1_0000_0000, 1),
            of(1, u64::MAX, u32::MAX),
            of(2, 1, 0),
            of(16, 0, 0),
        ];
        assert!(positions.is_sorted() && positions.map(|one| one.to_string()).is_sorted());
        for position in positions {
            assert_eq!(Position::parse(&position.to_string()), Some(position));
        }
        for wrong in ["", "1-0/9-1", "00000001-00000000/0000000a-0000000001", "x-y/z-1"] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn commit_keeps_the_timeline_that_it_was_made_on() {
        let history = "1\t0/64\tno recovery target specified\n\n3\t0/C8\treason\n";
        let timelines = Timelines::parse(4, history);
        let of = |commit| timelines.at(Lsn(commit), 1).timeline;
        assert_eq!([1, 99, 100, 199, 200].map(of), [1, 1, 3, 3, 4]);
        assert_eq!(
            [1, 2, 3].map(|one| timelines.end_of(one)),
            [Some(Lsn(100)), None, Some(Lsn(200))]
        );
        assert_eq!(
            Timelines::parse(1, "").at(Lsn(7), 2).to_string(),
            "00000001-00000000/00000007-0000000002"
        );
    }
}
