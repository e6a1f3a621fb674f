//! How fast a destination drains, and how long deliveries usually take. Needs two reads, or the log of the destination.

use std::{fmt, time::Duration};

use tokio::time::Instant;

use super::rfc3339;
use crate::{Api, console::measure};
use domain::{Stage, State};
use store::{CatalogEntry, LaneHead, Stats, StoreError};

/// The pause between two reads of a lane that may move.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How many log entries are read to find the usual time of a delivery.
const LAST_MAX: usize = 20;

/// The speed at which messages leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drain {
    pending: u64,
    per_second: f64,
}

/// A duration with one unit.
pub(super) fn shown(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

impl Drain {
    /// The speed between two reads; `None` if no message has left between them.
    fn between(before: &Stats, after: &Stats, time: Duration) -> Option<Drain> {
        let left = |stats: &Stats| stats.last_sequence.saturating_sub(stats.pending);
        let gone = left(after).saturating_sub(left(before));
        let per_second = gone as f64 / time.as_secs_f64().max(0.001);
        (gone > 0).then_some(Drain { pending: after.pending, per_second })
    }
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_ms = (self.pending as f64 / self.per_second * 1e3) as u64;
        write!(
            f,
            "Nothing blocks it: {:.0} messages leave each second. {} are pending, which takes about {} at this rate.",
            self.per_second,
            self.pending,
            shown(left_ms)
        )
    }
}

/// The lane, as [`store::Store::why`] reads it. Reads it again if its head may leave at any moment: a head that has
/// left blocks nothing. Then also returns how fast messages leave. If nothing is pending, returns neither lane nor
/// speed.
pub(super) async fn look_twice(
    api: &Api,
    entry: &CatalogEntry,
    key: Option<&str>,
    before: &Stats,
) -> Result<(Option<LaneHead>, Option<Drain>), StoreError> {
    let begun = Instant::now();
    let lane = api.store.why(entry, key).await?;
    let may_leave = match &lane {
        None => before.pending > 0,
        Some(lane) => {
            use State::{Delivering, Processing, Ready, Waiting};
            matches!(lane.head.state, Waiting | Processing | Ready | Delivering)
        }
    };
    if !may_leave {
        return Ok((lane, None));
    }
    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    let again = api.store.why(entry, key).await?;
    let position = |lane: &LaneHead| lane.head.message.position;
    if lane.is_some() && lane.as_ref().map(position) == again.as_ref().map(position) {
        return Ok((again, None));
    }
    let after = api.store.counts(entry).await?;
    let is_empty = again.is_none() && (after.pending == 0 || key.is_some());
    let drain = Drain::between(before, &after, begun.elapsed()).filter(|_| !is_empty);
    Ok((again, drain))
}

/// Sentences about the whole destination.
pub(super) async fn summary(
    api: &Api,
    entry: &CatalogEntry,
    lane: &LaneHead,
    stats: &Stats,
) -> Vec<String> {
    let Some(failing) = api.store.failing(entry, stats).await else { return Vec::new() };
    let stage = lane.head.message.attempts.errors.first().map(|(_, error)| error.stage);
    let (count, error) = (failing.count, failing.error.unwrap_or_default());
    let since = failing.since.map(rfc3339).unwrap_or_default();
    let messages = if count == 1 { "message waits" } else { "messages wait" };
    let what = match stage {
        Some(Stage::Transform) => "another attempt to process",
        _ => "the receiver",
    };
    vec![format!("{count} {messages} for {what}: {error}, since {since}.")]
}

/// A sentence about a head in delivery: how long it has been the head or, if that is later, how long ago its last
/// attempt failed; and the median delivery time of recent messages, if known. Empty if the first time is not known.
pub(super) async fn compared(
    api: &Api,
    entry: &CatalogEntry,
    lane: &LaneHead,
    now_ms: u64,
) -> String {
    let failed_ms = lane.head.message.attempts.errors.first().map(|(at_ms, _)| *at_ms);
    let Some(since_ms) = lane.head_since_ms.max(failed_ms) else { return String::new() };
    let entries = measure::last_entries(&api.store, entry, LAST_MAX).await.unwrap_or_default();
    let delivered = entries.iter().filter(|(_, one)| one.outcome == State::Delivered);
    let mut took: Vec<u64> = delivered.map(|(_, one)| one.delivery_ms).collect();
    took.sort_unstable();
    let usual = measure::quantile(&took, 50).map(|ms| format!("; usual are {}", shown(ms)));
    let usual = usual.unwrap_or_default();
    format!(" This has taken {} so far{usual}.", shown(now_ms.saturating_sub(since_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_has_rate_and_time_left_if_messages_left() {
        let stats = |last_sequence, pending| Stats { last_sequence, pending, ..Stats::default() };
        let drain = |after| Drain::between(&stats(100, 60), &after, Duration::from_millis(500));
        assert_eq!(drain(stats(110, 70)), None);
        let text = "Nothing blocks it: 20 messages leave each second. 60 are pending, which takes about 3 s at this rate.";
        assert_eq!(drain(stats(110, 60)).unwrap().to_string(), text);
    }
}
