//! What was claimed for a worker that is known not to have been told: it is given back at once, and
//! neither an attempt nor a stall is counted.

use std::{mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    api::Api,
    domain::LeaseToken,
    faults::planted,
    store::{CallSequence, CatalogEntry, Claimed, retry_until},
    telemetry,
    wire::peer::Lost,
};

/// Redis is asked for so long; after that the leases run out by themselves.
const REQUEUE_WITHIN: Duration = Duration::from_secs(20);

/// Leases of one answer. They are given back when this is dropped.
pub(super) struct Handed {
    api: Api,
    leases: Vec<(Arc<CatalogEntry>, Vec<LeaseToken>)>,
}

impl Handed {
    pub(super) fn new(api: Api) -> Handed {
        Handed { api, leases: Vec::new() }
    }

    /// These belong to the answer too.
    pub(super) fn add(&mut self, known: Arc<CatalogEntry>, claimed: &Claimed) {
        let tokens: Vec<_> = claimed.messages.iter().map(|(token, _)| token.clone()).collect();
        if !tokens.is_empty() {
            self.leases.push((known, tokens));
        }
    }

    /// What to do when the answer is known to be lost. Nothing is, if it never is.
    pub(super) fn when_lost(mut self) -> Lost {
        let (api, leases) = (self.api.clone(), mem::take(&mut self.leases));
        Box::new(move || drop(Handed { api, leases }))
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if planted::is("lost_leases_kept") {
            return;
        }
        for (known, tokens) in mem::take(&mut self.leases) {
            // Before the process ends, as long as it can.
            self.api.tasks.spawn(give_back(self.api.clone(), known, tokens));
        }
    }
}

async fn give_back(api: Api, known: Arc<CatalogEntry>, tokens: Vec<LeaseToken>) {
    let name = &known.destination.name;
    let caller = api.callers.take(&api, name);
    let requeue = || api.store.requeue(&caller, &known, &tokens);
    let requeued = retry_until(Some(Instant::now() + REQUEUE_WITHIN), requeue).await;
    api.callers.put_back(name, caller);
    match requeued {
        Ok(_) => {
            telemetry::requeued(name.as_str(), tokens.len());
            tracing::info!(
                destination = %name, count = tokens.len(),
                "messages are given back: their worker was gone before it was told of them"
            );
        }
        Err(error) => {
            tracing::warn!(destination = %name, %error, "messages cannot be given back; their leases run out");
        }
    }
}

/// Makes a claim again whose answer did not come, to give back what it got.
pub(super) fn recover(api: &Api, known: Arc<CatalogEntry>, caller: CallSequence, lease: Duration) {
    let task = api.clone();
    api.tasks.spawn(async move {
        let api = task;
        // The same call: what it claimed is told again, if it was carried out.
        let claim = || api.store.claim(&caller, &known, 1..=1, lease);
        let claimed = retry_until(Some(Instant::now() + REQUEUE_WITHIN), claim).await;
        api.callers.put_back(&known.destination.name, caller);
        if let Ok(claimed) = claimed {
            Handed::new(api).add(known, &claimed);
        }
    });
}
