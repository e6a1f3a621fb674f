//! `reseq status --until-drained`: waits until no message is pending.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use super::stats::{Seen, read};
use crate::{
    bulk::{LOST_MAX, is_temporary, progress_bar},
    output::{counted, human_age},
};
use client::Service;

/// How often to read the numbers.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Waits until no message is pending at these destinations (at any destination, if `names` is empty). Shows on a
/// terminal how many messages are left; otherwise writes a line on standard error when the number has changed.
pub(super) async fn wait(service: &Service, names: &[String]) -> anyhow::Result<()> {
    let (begun, bar) = (Instant::now(), progress_bar());
    let mut ticks = tokio::time::interval(POLL_EVERY);
    let (mut first, mut last, mut lost) = (None, String::new(), None);
    loop {
        ticks.tick().await;
        let all = match read(service, names, false).await {
            Ok(all) => all,
            Err(error) if is_temporary(&error) => {
                if lost.get_or_insert_with(Instant::now).elapsed() > LOST_MAX {
                    return Err(error);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        lost = None;
        let left = Left::of(&all);
        if left.is_nothing() {
            bar.finish_and_clear();
            return Ok(());
        }
        let gone = first.get_or_insert(left.pending).saturating_sub(left.pending);
        let text = left.shown(gone, begun.elapsed());
        if !std::io::stderr().is_terminal() && last != left.counts() {
            last = left.counts();
            eprintln!("{text}");
        }
        bar.set_message(text);
        bar.tick();
    }
}

/// The messages that are left to deliver.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    pending: u64,
    /// Messages that wait for an operator.
    halted: u64,
    /// Destinations whose numbers could not be read.
    unknown: u64,
}

impl Left {
    fn of(all: &[Seen]) -> Left {
        let sum = |of: fn(&Seen) -> u64| all.iter().map(of).sum();
        Left {
            pending: sum(|seen| seen.stats.pending),
            halted: sum(|seen| seen.stats.halted),
            unknown: sum(|seen| u64::from(!seen.stats.is_known())),
        }
    }

    fn is_nothing(&self) -> bool {
        self.pending == 0 && self.unknown == 0
    }

    fn counts(&self) -> String {
        let mut text = format!("{} pending", counted(self.pending, "message"));
        if self.halted > 0 {
            text += &format!(", of which {} wait for an operator", self.halted);
        }
        if self.unknown > 0 {
            text += &format!("; {} not read", counted(self.unknown, "destination"));
        }
        text
    }

    /// The counts, with the rate since the beginning, and the time that the rest takes at this rate.
    fn shown(&self, gone: u64, elapsed: Duration) -> String {
        let per_second = gone as f64 / elapsed.as_secs_f64().max(0.001);
        let counts = self.counts();
        if gone == 0 {
            return counts;
        }
        let left_ms = (self.pending as f64 / per_second * 1000.0) as u64;
        format!("{counts}; {per_second:.1} fewer each second, about {} left", human_age(left_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_rate_and_who_must_act() {
        let left = Left { pending: 30, halted: 2, unknown: 1 };
        let text = "30 messages pending, of which 2 wait for an operator; 1 destination not read; \
                    5.0 fewer each second, about 6.0 s left";
        assert_eq!(left.shown(10, Duration::from_secs(2)), text);
        assert_eq!(
            Left { pending: 1, ..Left::default() }.shown(0, Duration::ZERO),
            "1 message pending"
        );
        assert!(!left.is_nothing() && Left::default().is_nothing());
        assert!(!Left { unknown: 1, ..Left::default() }.is_nothing());
    }
}
