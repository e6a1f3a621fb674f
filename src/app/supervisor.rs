//! Tasks without which a process is of no use. Where one ends by itself the process ends too, so that
//! whoever runs it starts it anew: one that seems well and does nothing would be worse.

use tokio::sync::mpsc;

/// Notices when one of them ends.
#[derive(Clone)]
pub(super) struct Supervisor {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Tells which have ended.
pub(super) type Ended = mpsc::UnboundedReceiver<&'static str>;

/// Dropped with the task, however that ends.
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

    /// This task, to be run; its end is told, also if it panics.
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
