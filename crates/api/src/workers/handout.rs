//! Requeues claimed messages at once when the answer to their worker is known to be lost. The attempt is not counted,
//! and neither is a stall.

use std::{mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::Api;
use domain::{LeaseToken, WorkerName};
use http_server::client_connection::Lost;
use store::{CallSequence, CatalogEntry, Claimed, retry_until};

/// How long to retry; after that, the leases expire.
const REQUEUE_WITHIN: Duration = Duration::from_secs(20);

/// The leases in one answer. Dropping this requeues them.
pub(super) struct Handed {
    api: Api,
    leases: Vec<(Arc<CatalogEntry>, Vec<LeaseToken>)>,
}

impl Handed {
    pub(super) fn new(api: Api) -> Handed {
        Handed { api, leases: Vec::new() }
    }

    /// Adds leases to the answer.
    pub(super) fn add(&mut self, entry: Arc<CatalogEntry>, claimed: &Claimed) {
        let tokens: Vec<_> = claimed.messages.iter().map(|(token, _)| token.clone()).collect();
        if !tokens.is_empty() {
            self.leases.push((entry, tokens));
        }
    }

    /// The function that the server calls if the answer is lost.
    pub(super) fn when_lost(mut self) -> Lost {
        let (api, leases) = (self.api.clone(), mem::take(&mut self.leases));
        Box::new(move || drop(Handed { api, leases }))
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        for (entry, tokens) in mem::take(&mut self.leases) {
            // Runs on the task tracker: the process waits for this task before it ends.
            self.api.tasks.spawn(give_back(self.api.clone(), entry, tokens));
        }
    }
}

async fn give_back(api: Api, entry: Arc<CatalogEntry>, tokens: Vec<LeaseToken>) {
    let name = &entry.destination.name;
    let call_sequence = api.workers.take(&api, name);
    let requeue = || api.store.requeue(&call_sequence, &entry, &tokens);
    let requeued = retry_until(Some(Instant::now() + REQUEUE_WITHIN), requeue).await;
    api.workers.put_back(name, call_sequence);
    match requeued {
        Ok(_) => {
            telemetry::requeued(name.as_str(), tokens.len());
            tracing::info!(
                destination = %name, count = tokens.len(),
                "requeued messages: their worker had gone before it got the answer"
            );
        }
        Err(error) => {
            tracing::warn!(destination = %name, %error, "cannot requeue messages; their leases will expire");
        }
    }
}

/// Repeats a claim that had no answer, to requeue its messages.
pub(super) fn requeue_unanswered(
    api: &Api,
    entry: Arc<CatalogEntry>,
    call_sequence: CallSequence,
    worker: Option<WorkerName>,
    lease: Duration,
) {
    let task = api.clone();
    api.tasks.spawn(async move {
        let api = task;
        // If Redis has run the first call, the same call returns the same messages.
        let claim =
            || api.store.claim_for(worker.as_ref(), true, &call_sequence, &entry, 1..=1, lease);
        let claimed = retry_until(Some(Instant::now() + REQUEUE_WITHIN), claim).await;
        api.workers.put_back(&entry.destination.name, call_sequence);
        if let Ok(claimed) = claimed {
            // Dropped at once, which requeues the messages.
            Handed::new(api).add(entry, &claimed);
        }
    });
}
