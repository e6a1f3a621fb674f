//! Refuses arrivals before Redis runs out of memory, so that it can still process and deliver messages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use store::{Memory, Store};

/// How often Redis is asked for its memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How far memory use must fall below the limit before ingest continues, in percent.
const HYSTERESIS: u8 = 5;

/// The partitions that must refuse arrivals because Redis uses too much memory. Tracked per partition, because one
/// primary of a cluster may be full alone. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Watermark {
    is_high: Arc<[AtomicBool]>,
}

impl Watermark {
    /// A watermark on which no partition is above the limit until Redis was asked.
    pub fn new(partitions: u16) -> Watermark {
        Watermark { is_high: (0..partitions).map(|_| AtomicBool::new(false)).collect() }
    }

    /// True while this partition must refuse arrivals.
    pub fn is_high(&self, partition: u16) -> bool {
        self.is_high.get(usize::from(partition)).is_some_and(|high| high.load(Ordering::Relaxed))
    }

    /// Asks Redis once a second until `stop`. The limit is `percent` of `maxmemory`; 0: no limit.
    pub async fn watch(self, store: Store, percent: u8, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            // A server that does not answer keeps its state. It cannot store anything anyway.
            self.note(&store.memory_of_all().await, percent);
        }
    }

    fn note(&self, said: &[Option<Memory>], percent: u8) {
        let fullest = |one: &&Memory, other: &&Memory| one.share().total_cmp(&other.share());
        let Some(Memory { used, max }) = said.iter().flatten().max_by(fullest).copied() else {
            return;
        };
        telemetry::redis_memory(used, max);
        let count = || self.is_high.iter().filter(|high| high.load(Ordering::Relaxed)).count();
        let before = count();
        for (high, memory) in self.is_high.iter().zip(said) {
            if let Some(memory) = memory {
                let was_high = high.load(Ordering::Relaxed);
                high.store(is_above(*memory, percent, was_high), Ordering::Relaxed);
            }
        }
        let (partitions, now) = (self.is_high.len(), count());
        if now > before {
            tracing::warn!(
                used,
                max,
                percent,
                partitions_stopped = now,
                partitions,
                "Redis has little memory left; its partitions refuse messages"
            );
        } else if now < before {
            tracing::info!(
                used,
                max,
                partitions_stopped = now,
                partitions,
                "Redis has memory again"
            );
        }
    }
}

/// True if the server uses so much memory that arrivals must be refused.
fn is_above(memory: Memory, percent: u8, was_above: bool) -> bool {
    if percent == 0 {
        return false;
    }
    // At 0, ingest would never continue.
    let mark = if was_above { percent.saturating_sub(HYSTERESIS).max(1) } else { percent };
    memory.is_at(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_at_the_mark_and_falls_5_percent_below() {
        let above = |used, percent, was| is_above(Memory { used, max: 1000 }, percent, was);
        assert!(!above(899, 90, false) && above(900, 90, false) && above(2000, 90, false));
        assert!(above(899, 90, true) && above(850, 90, true) && !above(849, 90, true));
        assert!(above(10, 3, true) && !above(9, 3, true));
        assert!(!above(2000, 0, true), "0 is never");
        assert!(!is_above(Memory { used: 1 << 60, max: 0 }, 90, true), "without a limit, never");
        assert!(is_above(Memory { used: u64::MAX, max: u64::MAX }, 100, false));
    }

    #[test]
    fn full_server_stops_own_partitions_silent_one_changes_nothing() {
        let watermark = Watermark::new(3);
        let high = || [0, 1, 2, 3].map(|partition| watermark.is_high(partition));
        let (full, free) = (Memory { used: 95, max: 100 }, Memory { used: 1, max: 100 });
        watermark.note(&[Some(full), Some(free), None], 90);
        assert_eq!(high(), [true, false, false, false]);
        watermark.note(&[None, Some(full), Some(free)], 90);
        assert_eq!(high(), [true, true, false, false]);
        watermark.note(&[Some(free), Some(free), Some(free)], 90);
        assert_eq!(high(), [false; 4]);
    }
}
