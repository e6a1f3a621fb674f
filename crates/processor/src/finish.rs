//! Sends results to Redis by group commit: while one call is in flight, the next batch fills.

use std::{sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use super::leases::LeaseGuard;
use domain::{Destination, DestinationName, Disposition, LeaseToken, Stamped};
use faults::pause::{Point, point};
use store::{
    Catalog, Completion, DueTimer, FAIL_MAX, Failed, GroupCommit, Status, Store, StoreError,
    chunks_by_size, retry_until,
};

/// The most queued outcomes of one destination. Beyond that, attempts keep their slots and wait.
const QUEUE_MAX: usize = 1024;
/// The most outcomes of one call.
const BATCH_MAX: usize = 256;
/// The most bytes of outputs in one call (at least one output is sent).
const BATCH_BYTES_MAX: usize = 4 << 20;

/// If Redis has no memory left for outputs: how long to wait before their messages are requeued.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Decides what becomes of a message after a failed attempt.
pub(super) type Decide = Box<dyn Fn(&Destination) -> Disposition + Send + Sync>;

/// The outcome of an attempt.
pub(super) enum Outcome {
    /// Deliver this message. `is_unchanged`: Redis already stores it like this.
    Completed { output: Box<Stamped>, is_unchanged: bool },
    /// The attempt failed. `decide` chooses what becomes of the message when this is stored, by the definition that
    /// applies then.
    Failed { failed: Box<Failed>, decide: Decide },
    /// Requeue the message, as if it had not been claimed.
    Requeued,
}

struct Job {
    token: LeaseToken,
    outcome: Outcome,
    /// The lease is extended until Redis has the outcome.
    _guard: LeaseGuard,
}

/// Sends outcomes to Redis.
pub(super) struct Finisher {
    jobs: GroupCommit<Job>,
}

impl Finisher {
    pub(super) fn new(
        store: Store,
        catalog: Catalog,
        due: DueTimer,
        tracker: TaskTracker,
    ) -> Finisher {
        let finish = Arc::new(Finish { store, catalog, due });
        let jobs = GroupCommit::new(QUEUE_MAX, BATCH_MAX, tracker, move |name, jobs| {
            let finish = finish.clone();
            Box::pin(async move { finish.run(name, jobs).await })
        });
        Finisher { jobs }
    }

    pub(super) async fn finish(&self, token: LeaseToken, guard: LeaseGuard, outcome: Outcome) {
        let name = token.destination.clone();
        self.jobs.submit(&name, Job { token, outcome, _guard: guard }).await;
    }
}

struct Finish {
    store: Store,
    catalog: Catalog,
    due: DueTimer,
}

impl Finish {
    async fn run(&self, name: DestinationName, jobs: Vec<Job>) {
        let (mut completed, mut failed, mut requeued) = (Vec::new(), Vec::new(), Vec::new());
        let (mut guard, mut is_full) = (Vec::with_capacity(jobs.len()), false);
        for job in jobs {
            guard.push(job._guard);
            match job.outcome {
                Outcome::Completed { output, is_unchanged } => {
                    completed.push(Completion { token: job.token, output: *output, is_unchanged });
                }
                Outcome::Failed { failed: one, decide } => failed.push((*one, decide)),
                Outcome::Requeued => requeued.push(job.token),
            }
        }
        // The messages of a removed destination are gone.
        let Some(entry) = self.catalog.get(name.as_str()) else { return };
        let decided = failed
            .into_iter()
            .map(|(one, decide)| Failed { disposition: decide(&entry.destination), ..one });
        let failed: Vec<Failed> = decided.collect();
        let store = &self.store;
        let caller = store.take_caller(entry.partition, None);
        let size = |one: &Completion| one.output.message.body.bytes.len();
        for some in chunks_by_size(&completed, BATCH_MAX, BATCH_BYTES_MAX, size) {
            telemetry::completing(some.len());
            let call = || store.complete(&entry, some);
            let statuses = note(&name, "complete", retry_until(None, call).await);
            point(Point::ProcessorCompleted).await;
            let full = some.iter().zip(statuses).filter(|(_, status)| *status == Status::Full);
            let before = requeued.len();
            requeued.extend(full.map(|(one, _)| one.token.clone()));
            is_full |= requeued.len() > before;
        }
        for some in failed.chunks(FAIL_MAX) {
            let call = || store.fail(&caller, &entry, some);
            let statuses = note(&name, "fail", retry_until(None, call).await);
            point(Point::ProcessorFailed).await;
            self.due.note_failed(entry.partition, some, &statuses);
        }
        if is_full {
            // These messages are processed again when Redis has memory, or when they are heads.
            tokio::time::sleep(FULL_PAUSE).await;
        }
        if !requeued.is_empty() {
            let call = || store.requeue(&caller, &entry, &requeued);
            note(&name, "requeue", retry_until(None, call).await);
        }
        store.put_back_caller(entry.partition, caller, None);
    }
}

/// Logs stale leases and errors; returns the statuses.
fn note(
    name: &DestinationName,
    what: &str,
    answer: Result<Vec<Status>, StoreError>,
) -> Vec<Status> {
    match answer {
        Ok(statuses) => {
            let stale = statuses.iter().filter(|status| **status == Status::StaleLease).count();
            if stale > 0 {
                tracing::debug!(destination = %name, what, stale, "leases had expired");
            }
            statuses
        }
        // Nothing is lost: the leases expire, and the messages are processed again. The store logs problems of Redis
        // itself.
        Err(error) if error.is_logged() || error.is_temporary() => Vec::new(),
        Err(error) => {
            tracing::error!(destination = %name, what, %error, "could not store outcomes");
            Vec::new()
        }
    }
}
