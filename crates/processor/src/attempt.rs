//! One attempt at one message: runs the transform and handles its result.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Failure, Finisher, Outcome, Output, Transform, Transforms,
    alone::Alone,
    leases::{LeaseGuard, Leases},
    slots::Class,
};
use domain::excerpt::excerpt;
use domain::{
    AttemptError, Destination, DestinationName, ErrorKind, Finality, LeaseToken, Processed,
    RetryPolicy, Stage, Stamped, TransformKind,
};
use faults::pause::{Point, point};
use store::{Catalog, CatalogEntry, Claimed, Failed, server_clock};
use telemetry::{Noted, SpanOf, TRANSFORMS};

/// The destination of an attempt that has ended, and the class of its slot.
pub(super) type Ended = (DestinationName, Class);

/// Runs attempts, each in its own task.
pub(super) struct Attempts {
    pub(super) transforms: Transforms,
    pub(super) finisher: Arc<Finisher>,
    pub(super) leases: Arc<Leases>,
    /// Cancelled when unfinished messages must be requeued.
    pub(super) abandon: CancellationToken,
    /// Where each attempt reports its end.
    pub(super) ended: mpsc::UnboundedSender<Ended>,
    pub(super) tasks: TaskTracker,
}

impl Attempts {
    /// How many attempts for this destination may run in this pod at once; 0 if the pod does not have the transform.
    pub(super) fn at_once_max(&self, entry: &CatalogEntry) -> usize {
        let Some(transform) = self.transforms.of(entry) else { return 0 };
        let most = entry.destination.transform.concurrency as usize;
        transform.at_once_max().map_or(most, |able| able.min(most))
    }

    /// Drops the transforms of destinations that are gone.
    pub(super) fn keep(&self, catalog: &Catalog) {
        self.transforms.keep(|name| catalog.get(name.as_str()));
    }

    /// Starts an attempt for each claimed message.
    pub(super) fn start(&self, entry: &Arc<CatalogEntry>, claimed: Claimed, alone: Option<Alone>) {
        let alone = alone.filter(|_| claimed.must_be_alone());
        // Claims are made only if the pod has the transform, with the same definition.
        let Some(transform) = self.transforms.of(entry) else { return };
        let meter = telemetry::Transformed::of(entry.destination.name.as_str());
        for (token, message) in claimed.messages {
            let attempt = Attempt {
                entry: entry.clone(),
                transform: transform.clone(),
                meter: meter.clone(),
                guard: self.leases.hold(token.clone()),
                _alone: alone.clone(),
                token,
                message: Box::new(message),
            };
            let (finisher, abandon) = (self.finisher.clone(), self.abandon.clone());
            let of = (attempt.token.destination.clone(), Class::of(&entry.destination));
            let slot = Slot { of, ended: self.ended.clone() };
            self.tasks.spawn(async move {
                let _slot = slot;
                point(Point::ProcessorClaimed).await;
                attempt.run(&finisher, abandon).await;
            });
        }
    }
}

/// Reports on drop that the slot is free, however the attempt ends, so that no slot is lost.
struct Slot {
    of: Ended,
    ended: mpsc::UnboundedSender<Ended>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.ended.send(self.of.clone());
    }
}

struct Attempt {
    entry: Arc<CatalogEntry>,
    transform: Arc<dyn Transform>,
    meter: telemetry::Transformed,
    guard: LeaseGuard,
    /// While an attempt holds this, the process claims no other message that must be alone.
    _alone: Option<Alone>,
    token: LeaseToken,
    message: Box<Stamped>,
}

impl Attempt {
    async fn run(self, finisher: &Finisher, abandon: CancellationToken) {
        let begun = Instant::now();
        let result = tokio::select! {
            // Poll the transform first: if it finishes at once, the other branches are never polled.
            biased;
            result = self.transform() => Some(result),
            // The lease is lost: Redis would ignore the result.
            () = self.guard.lost() => None,
            () = abandon.cancelled() => None,
        };
        if matches!(result, Some(Ok(_))) {
            point(Point::ProcessorTransformed).await;
        }
        let outcome = match &result {
            Some(Ok(Output::Deliver(_))) => "deliver",
            Some(Ok(Output::Drop)) => "drop",
            Some(Err(_)) => "fail",
            None => "abandoned",
        };
        let took = begun.elapsed();
        self.meter.note(outcome, took);
        let is_traced = telemetry::is_traced(&self.message.message);
        if is_traced {
            let error = result.as_ref().and_then(|result| Some(&*result.as_ref().err()?.reason));
            self.note_spans(outcome, error, took);
        }
        let outcome = match result {
            Some(Ok(output)) => {
                TRANSFORMS.succeeded(self.token.destination.as_str(), 1);
                let processed = self.processed(took);
                let keeps_input = self.entry.destination.log_bodies;
                let output = match output {
                    Output::Deliver(body) => Some(body),
                    Output::Drop => None,
                };
                // Without a log, nobody reads `processed` later, so Redis can keep the record as it is. A trace shows
                // `processed`.
                let is_unchanged = self.entry.destination.log_max == 0
                    && !is_traced
                    && output.as_ref() == Some(&self.message.message.body);
                let output = Box::new(self.message.finished(output, processed, keeps_input));
                Outcome::Completed { output, is_unchanged }
            }
            Some(Err(failure)) => self.failed(failure),
            None => Outcome::Requeued,
        };
        finisher.finish(self.token, self.guard, outcome).await;
    }

    fn note_spans(&self, outcome: &'static str, error: Option<&str>, took: Duration) {
        let attempt = self.message.attempts.number();
        let ended = server_clock();
        if attempt == 1 {
            telemetry::note_wait(&self.message, self.token.claimed_ms);
        }
        // The error of an expression may quote the body.
        let may_quote_body = self.entry.destination.transform.kind == TransformKind::Jq;
        let error = error.map(|error| if may_quote_body { "the expression failed" } else { error });
        telemetry::note_span(
            &self.message,
            &Noted {
                stage: SpanOf::Transform,
                attempt,
                begun: ended - took,
                ended,
                outcome,
                error,
                links: &[],
                waited_for: None,
            },
        );
    }

    async fn transform(&self) -> Result<Output, Failure> {
        let timeout_ms = self.entry.destination.transform.timeout_ms;
        // A panic counts as a failed attempt, and must not cost the slot.
        let attempt = async { self.transform.transform(&self.message).await };
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let limit = match self.transform.limits_its_time() {
            true => Duration::MAX,
            false => Duration::from_millis(timeout_ms),
        };
        match tokio::time::timeout(limit, attempt).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure::retryable("the transform panicked")),
            Err(_) => {
                let reason = format!("timed out after {timeout_ms} ms");
                Err(Failure::retryable(reason).with_kind(ErrorKind::Timeout))
            }
        }
    }

    fn processed(&self, took: Duration) -> Processed {
        Processed {
            waited_ms: self.token.claimed_ms.saturating_sub(self.message.message.received_ms),
            took_ms: took.as_millis() as u64,
            attempts: self.message.attempts.number(),
        }
    }

    fn failed(&self, failure: Failure) -> Outcome {
        let destination = &self.entry.destination;
        let Failure { reason, kind, status, is_final, retry_after, .. } = failure;
        let failed = self.message.attempts.failed.saturating_add(1);
        let finality = if is_final { Finality::Permanent } else { Finality::Retryable };
        let (options, chance) = (self.message.options, rand::random());
        let decide = move |destination: &Destination| {
            let policy = RetryPolicy::of_transform(destination, &options);
            policy.after(failed, finality, retry_after, chance)
        };
        let disposition = decide(destination);
        // The error of an expression may quote the body: keep it with the message, but not in the
        // log.
        let may_quote_body = destination.transform.kind == TransformKind::Jq;
        let logged = match may_quote_body {
            true => "the expression failed".to_owned(),
            false => excerpt(reason.as_bytes()),
        };
        let ids = self.message.message.ids();
        TRANSFORMS.failed(&telemetry::Failed {
            destination: self.token.destination.as_str(),
            sequence: self.token.sequence,
            id: Some(&ids.id),
            trace: ids.trace_id().as_deref(),
            attempt: self.message.attempts.number(),
            reason: &logged,
            wait: disposition.wait(),
        });
        let error = AttemptError { status, ..AttemptError::new(Stage::Transform, kind, reason) };
        let token = self.token.clone();
        let failed = Box::new(Failed { token, disposition, is_later: false, error, ids });
        Outcome::Failed { failed, decide: Box::new(decide) }
    }
}
