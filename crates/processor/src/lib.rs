//! The processor role: claims waiting messages, transforms them in any order, completes them. It scales with the number
//! of pods; no message is assigned to a pod before a claim, so no message moves when a pod joins or leaves.

mod alone;
mod attempt;
mod claim_priority;
mod claim_sizes;
mod claims;
mod fair_queue;
mod finish;
mod leases;
mod on_arrival;
mod slots;
pub mod transform;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, mpsc},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use claims::{Claims, ClaimsEvent};
use finish::{Finisher, Outcome};
use slots::Slots;

use store::{Catalog, DueTimer, Store, Wake, already_here};

pub use on_arrival::OnArrival;
pub use transform::{Failure, Output, Transform, Transforms};

/// How many freed slots are handled at once.
const FREED_MAX: usize = 1024;

/// The processor's dependencies and settings.
pub struct Processor {
    /// Redis.
    pub store: Store,
    /// The destinations.
    pub catalog: Catalog,
    /// The settings of the processor.
    pub config: config::Processor,
    /// How messages are transformed.
    pub transforms: Transforms,
    /// Schedules retries of failed messages.
    pub due: DueTimer,
    /// Takes messages from ingest of the same pod as they arrive.
    pub on_arrival: OnArrival,
}

impl Processor {
    /// Runs until `stop`. Then claims no more messages, finishes what it can within `drain`, and requeues the rest.
    pub async fn run(
        self,
        mut wakes: broadcast::Receiver<Wake>,
        stop: CancellationToken,
        drain: Duration,
    ) {
        let tasks = TaskTracker::new();
        let lease = Duration::from_millis(self.config.lease_ms);
        let leases = Arc::new(leases::Leases::default());
        let finishing = TaskTracker::new();
        let finisher = Arc::new(Finisher::new(
            self.store.clone(),
            self.catalog.clone(),
            self.due.clone(),
            finishing.clone(),
        ));
        let extending = CancellationToken::new();
        let extender = leases::extend(
            leases.clone(),
            self.store.clone(),
            self.catalog.clone(),
            lease,
            extending.clone(),
        );
        let mut extender = tokio::spawn(extender);

        let (ended, mut ends) = mpsc::unbounded_channel();
        let abandon = CancellationToken::new();
        let attempts = Arc::new(attempt::Attempts {
            transforms: self.transforms,
            finisher,
            leases,
            abandon: abandon.clone(),
            ended,
            tasks: tasks.clone(),
        });
        let slots = Slots::new(self.config.concurrency);
        self.on_arrival.open(&self.store, slots.clone(), attempts.clone(), lease);
        let catalog = self.catalog.clone();
        let mut claims = Claims::new(self.store, self.catalog, lease, slots.clone());
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut freed = Vec::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                // The extender ends only by a panic. The pod must not hold leases without it.
                _ = &mut extender => {
                    self.on_arrival.close();
                    return;
                }
                wake = wakes.recv() => {
                    if !claims.take_wake(wake) {
                        break;
                    }
                    // Take all wake-ups that have arrived, so that their claims share calls.
                    while let Some(wake) = already_here(&mut wakes) {
                        claims.take_wake(wake);
                    }
                }
                _ = ends.recv_many(&mut freed, FREED_MAX) => {
                    freed.drain(..).for_each(|(name, class)| claims.freed(class, &name));
                }
                Some(came) = claims.next() => {
                    if let ClaimsEvent::Messages(entry, claimed, alone) = came {
                        self.due.note_rest(&entry, &claimed);
                        attempts.start(&entry, claimed, alone);
                    }
                }
                _ = tick.tick() => {
                    attempts.keep(&catalog);
                    claims.start_poll();
                }
            }
            claims.claim(|entry| attempts.at_once_max(entry));
            slots.report();
        }
        self.on_arrival.close();
        // Claims in flight still complete: their messages are processed or requeued like the rest.
        let deadline = Instant::now() + drain;
        claims.stop_poll();
        loop {
            while let Some(came) = claims.next().await {
                if let ClaimsEvent::Messages(entry, claimed, alone) = came {
                    self.due.note_rest(&entry, &claimed);
                    attempts.start(&entry, claimed, alone);
                }
            }
            if Instant::now() >= deadline || !claims.requeue_all_unanswered(deadline) {
                break;
            }
        }
        tasks.close();
        if tokio::time::timeout_at(deadline, tasks.wait()).await.is_err() {
            tracing::info!("requeueing unfinished messages");
            abandon.cancel();
            tasks.wait().await;
        }
        // The finisher's workers end when no attempt holds the finisher any more.
        drop(attempts);
        finishing.close();
        finishing.wait().await;
        extending.cancel();
        let _ = extender.await;
    }
}
