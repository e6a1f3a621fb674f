//! Latency, overhead and error rate of the last messages that left a destination, from its log.

use std::collections::HashMap;

use domain::{Ordering, Sequence, State};
use store::{CatalogEntry, LogEntry, Store, StoreError};

/// Reads the last entries of the log, the oldest first.
pub(crate) async fn last_entries(
    store: &Store,
    entry: &CatalogEntry,
    max: usize,
) -> Result<Vec<(Sequence, LogEntry)>, StoreError> {
    if entry.destination.log_max == 0 {
        return Ok(Vec::new());
    }
    let newest = store.log_newest(entry, None, max).await?.sequences;
    let found = store.log_entries(entry, &newest).await?;
    let mut entries: Vec<_> =
        newest.into_iter().zip(found).filter_map(|(at, one)| Some((at, one?))).collect();
    entries.reverse();
    Ok(entries)
}

/// Adds how long delivered messages took from arrival to delivery, and how much of that time was overhead, in ms.
///
/// Ideally, the work on a message begins when the message arrives, and the message leaves when this work and all
/// messages before it in its lane are finished. Any longer time is overhead. The first message of each lane has no
/// known predecessor: it only serves to compute the next.
pub(super) fn add_latencies(
    entry: &CatalogEntry,
    entries: &[(Sequence, LogEntry)],
    (latencies, overheads): (&mut Vec<u64>, &mut Vec<u64>),
) {
    let mut lanes: HashMap<Option<String>, u64> = HashMap::new();
    for (sequence, one) in entries.iter().filter(|(_, one)| one.outcome == State::Delivered) {
        let took = one.processed.map_or(0, |processed| processed.took_ms) + one.delivery_ms;
        let alone = one.received_ms + took;
        let lane = entry.destination.lane_of(one.key.as_deref(), *sequence);
        latencies.push(one.settled_ms.saturating_sub(one.received_ms));
        let is_own_lane = entry.destination.ordering == Ordering::None;
        let before = lanes.get(&lane).copied().or(is_own_lane.then_some(0));
        let ideal = before.map_or(one.settled_ms, |before| before.max(alone));
        if before.is_some() {
            overheads.push(one.settled_ms.saturating_sub(ideal));
        }
        lanes.insert(lane, ideal);
    }
}

/// The share of all attempts of these messages that failed, 0 to 1; `None` without attempts.
pub(super) fn error_rate(entries: &[(Sequence, LogEntry)]) -> Option<f64> {
    let (mut failed, mut all) = (0_u32, 0_u32);
    for (_, one) in entries {
        let processing = one.processed.map_or(0, |processed| processed.attempts);
        let is_delivered = one.outcome == State::Delivered;
        // Without a result of processing, the attempts of the message are attempts to process it.
        let gave_up = u32::from(one.outcome == State::DeadLettered);
        let last = one.attempts.max(gave_up);
        failed += last.saturating_sub(u32::from(is_delivered)) + processing.saturating_sub(1);
        all += last + processing;
    }
    (all > 0).then(|| f64::from(failed) / f64::from(all))
}

/// A quantile by nearest rank: one of the values.
pub(crate) fn quantile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
