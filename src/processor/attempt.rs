//! One attempt at one message: the transform, and what comes of it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Failure, Finisher, Outcome, Output, Transform, Transforms,
    leases::{Held, Leases},
};
use crate::{
    domain::{DestinationName, LeaseToken, Stage, Stamped, Tombstone, Trouble, TroubleKind},
    store::{Claimed, Known},
    telemetry,
};

/// The longest wait that a transform may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Runs attempts, each in a task of its own.
pub(super) struct Attempts {
    pub(super) transforms: Transforms,
    pub(super) finisher: Arc<Finisher>,
    pub(super) leases: Arc<Leases>,
    /// Set when unfinished messages are to be handed back.
    pub(super) abandon: CancellationToken,
    /// Is told of each attempt that has ended.
    pub(super) ended: mpsc::UnboundedSender<DestinationName>,
    pub(super) tasks: TaskTracker,
}

impl Attempts {
    /// True if this pod has what it takes to transform this destination's messages.
    pub(super) fn can_run(&self, known: &Known) -> bool {
        self.transforms.of(known).is_some()
    }

    /// Begins an attempt at each claimed message.
    pub(super) fn start(&self, known: &Arc<Known>, claimed: Claimed) {
        // Claims are made only where there is one, and by the same definition.
        let Some(transform) = self.transforms.of(known) else { return };
        for (token, message) in claimed.messages {
            let attempt = Attempt {
                known: known.clone(),
                transform: transform.clone(),
                held: self.leases.hold(token.clone()),
                token,
                message,
            };
            let (finisher, abandon) = (self.finisher.clone(), self.abandon.clone());
            let ended = self.ended.clone();
            self.tasks.spawn(async move {
                let name = attempt.token.destination.clone();
                attempt.run(&finisher, abandon).await;
                let _ = ended.send(name);
            });
        }
    }
}

struct Attempt {
    known: Arc<Known>,
    transform: Arc<dyn Transform>,
    held: Held,
    token: LeaseToken,
    message: Stamped,
}

impl Attempt {
    async fn run(self, finisher: &Finisher, abandon: CancellationToken) {
        let name = self.token.destination.clone();
        let begun = Instant::now();
        let result = tokio::select! {
            result = self.transform() => Some(result),
            // Somebody else has the message: what we make of it counts for nothing.
            () = self.held.lost() => None,
            () = abandon.cancelled() => None,
        };
        let outcome = match &result {
            Some(Ok(Output::Deliver(_))) => "deliver",
            Some(Ok(Output::Drop)) => "drop",
            Some(Err(_)) => "fail",
            None => "abandoned",
        };
        telemetry::transformed(name.as_str(), outcome, begun.elapsed());
        let outcome = match result {
            Some(Ok(output)) => Outcome::Completed(self.output(output)),
            Some(Err(failure)) => self.failed(failure),
            None => Outcome::Unclaimed,
        };
        finisher.finish(self.token, self.held, outcome).await;
    }

    async fn transform(&self) -> Result<Output, Failure> {
        let timeout_ms = self.known.destination.transform.timeout_ms;
        // A panic is a failed attempt like any other: it must not cost the slot.
        let attempt = AssertUnwindSafe(self.transform.transform(&self.message)).catch_unwind();
        match tokio::time::timeout(Duration::from_millis(timeout_ms), attempt).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure {
                reason: "the transform panicked".into(),
                retry_after: None,
                is_final: false,
            }),
            Err(_) => Err(Failure {
                reason: format!("timed out after {timeout_ms} ms"),
                retry_after: None,
                is_final: false,
            }),
        }
    }

    fn output(&self, output: Output) -> Stamped {
        let mut stamped = self.message.clone();
        match output {
            Output::Deliver(body) => stamped.message.body = body,
            Output::Drop => {
                stamped.message.body.bytes = bytes::Bytes::new();
                stamped.tombstone = Some(Tombstone::Dropped);
            }
        }
        stamped
    }

    fn failed(&self, failure: Failure) -> Outcome {
        let attempt = self.message.attempts.failed + 1;
        let backoff = self.known.destination.transform.backoff();
        let chance = rand::random::<f64>();
        let wait = match failure.is_final {
            // Another attempt is not likely to help; the lane holds, and is asked seldom.
            true => Duration::from_millis(backoff.max_ms),
            false => backoff.wait_asked(attempt, chance, failure.retry_after, RETRY_AFTER_MAX),
        };
        tracing::warn!(
            destination = %self.token.destination, sequence = self.token.sequence, attempt,
            reason = failure.reason, is_final = failure.is_final, wait_ms = wait.as_millis() as u64,
            "a transform failed, and is tried again",
        );
        let trouble = Trouble::new(Stage::Transform, TroubleKind::Failed, failure.reason);
        Outcome::Failed { wait, is_final: failure.is_final, trouble }
    }
}
