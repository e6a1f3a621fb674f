//! Refuses arrivals in time, while Redis still has memory for what drains.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    store::{Memory, Store},
    telemetry,
};

/// How often Redis is asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So much less must be used before anything is taken again, in percent.
const HYSTERESIS: u8 = 5;

/// Whether Redis uses too much of its memory to take anything in. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Watermark {
    is_high: Arc<AtomicBool>,
}

impl Watermark {
    /// True while nothing may be taken in.
    pub fn is_high(&self) -> bool {
        self.is_high.load(Ordering::Relaxed)
    }

    /// Looks once a second until `stop`. `percent` of `maxmemory` is high; 0: nothing is.
    pub async fn watch(self, store: Store, percent: u8, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            match store.memory().await {
                Ok(memory) => self.note(memory, percent),
                // What cannot be asked does not take anything in either.
                Err(error) => tracing::debug!(%error, "cannot ask Redis for its memory"),
            }
        }
    }

    fn note(&self, memory: Memory, percent: u8) {
        let Memory { used, max } = memory;
        telemetry::redis_memory(used, max);
        let was_high = self.is_high();
        let is_high = is_above(memory, percent, was_high);
        self.is_high.store(is_high, Ordering::Relaxed);
        match (was_high, is_high) {
            (false, true) => tracing::warn!(
                used,
                max,
                percent,
                "Redis has little memory left; nothing is taken in"
            ),
            (true, false) => tracing::info!(used, max, percent, "Redis has memory again"),
            _ => {}
        }
    }
}

/// True if so much is used that nothing may be taken in.
fn is_above(memory: Memory, percent: u8, was_above: bool) -> bool {
    if percent == 0 {
        return false;
    }
    // Were it 0, nothing would ever be taken again.
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
}
