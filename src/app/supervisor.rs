//! Ends the process when an essential task ends unexpectedly, so that the system restarts the process. Otherwise the
//! process would look healthy but do nothing.

use tokio::sync::mpsc;

/// Notices when an essential task ends.
#[derive(Clone)]
pub(super) struct Supervisor {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// The names of the tasks that ended.
pub(super) type Ended = mpsc::UnboundedReceiver<&'static str>;

/// Reports the end of a task when dropped with it.
struct Guard {
    what: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.ended.send(self.what);
    }
}

impl Supervisor {
    pub(super) fn new() -> (Supervisor, Ended) {
        let (ended, told) = mpsc::unbounded_channel();
        (Supervisor { ended }, told)
    }

    /// Wraps a task so that its end is reported, even after a panic.
    pub(super) fn watch<F: Future>(
        &self,
        what: &'static str,
        task: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let guard = Guard { what, ended: self.ended.clone() };
        async move {
            let _guard = guard;
            task.await
        }
    }
}
