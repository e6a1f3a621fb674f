//! Wakes the task of a destination when there may be something to do, and tells when the task has
//! ended, so that another one is started.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const RUNS: u8 = 0;
const POKED: u8 = 1;
const ENDED: u8 = 2;

/// Pokes one task. No poke is lost: a task that was poked does not end.
#[derive(Default)]
pub(in crate::sender) struct Poke {
    state: AtomicU8,
    notify: Notify,
}

impl Poke {
    /// False if the task has ended.
    pub(in crate::sender) fn poke(&self) -> bool {
        let poked = |state| (state != ENDED).then_some(POKED);
        let runs = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, poked).is_ok();
        if runs {
            self.notify.notify_one();
        }
        runs
    }

    /// Resolves when the task was poked. The task must look for work after this resolves: a poke during
    /// that search is kept for the next call.
    pub(super) async fn poked(&self) {
        self.notify.notified().await;
        self.state.store(RUNS, Ordering::Release);
    }

    /// Ends, unless there was a poke meanwhile. Only the task calls it.
    pub(super) fn end(&self) -> bool {
        self.state.compare_exchange(RUNS, ENDED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_task_that_was_poked_does_not_end_and_one_that_has_ended_is_not_poked() {
        let poke = Poke::default();
        assert!(poke.poke());
        assert!(!poke.end());
        assert!(poke.poked().now_or_never().is_some());
        assert!(poke.poked().now_or_never().is_none());
        assert!(poke.end());
        assert!(!poke.poke());
    }
}
