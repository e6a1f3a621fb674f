//! Extends the leases of this pod while it works on their messages.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use domain::{DestinationName, LeaseToken};
use store::{Catalog, Extension, Status, Store};

/// The most leases that one call extends.
const EXTEND_MAX: usize = 500;

/// All leases of this pod, by destination.
#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<DestinationName, HashMap<LeaseToken, CancellationToken>>>,
}

/// A lease of this pod. If this is dropped, the lease is not extended any more.
pub(super) struct LeaseGuard {
    leases: Arc<Leases>,
    token: LeaseToken,
    lost: CancellationToken,
}

impl LeaseGuard {
    /// Resolves when Redis says that the lease is lost.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let mut held = self.leases.held.lock();
        if let Some(of_destination) = held.get_mut(&self.token.destination) {
            of_destination.remove(&self.token);
            if of_destination.is_empty() {
                held.remove(&self.token.destination);
            }
        }
    }
}

impl Leases {
    /// Extends the lease until the returned value is dropped.
    pub(super) fn hold(self: &Arc<Self>, token: LeaseToken) -> LeaseGuard {
        let lost = CancellationToken::new();
        let mut held = self.held.lock();
        let of_destination = held.entry(token.destination.clone()).or_default();
        of_destination.insert(token.clone(), lost.clone());
        LeaseGuard { leases: self.clone(), token, lost }
    }

    fn all(&self) -> HashMap<DestinationName, Vec<LeaseToken>> {
        let held = self.held.lock();
        held.iter().map(|(name, of_it)| (name.clone(), of_it.keys().cloned().collect())).collect()
    }

    fn lose(&self, token: &LeaseToken) {
        let held = self.held.lock();
        if let Some(lost) = held.get(&token.destination).and_then(|of_it| of_it.get(token)) {
            lost.cancel();
        }
    }
}

/// Extends all leases every third of their duration, until `stop`.
pub(super) async fn extend(
    leases: Arc<Leases>,
    store: Store,
    catalog: Catalog,
    lease: Duration,
    stop: CancellationToken,
) {
    let mut tick = tokio::time::interval(lease / 3);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        // Extend in parallel, and at most until the next round: a server that does not answer delays only the leases in
        // its own partitions.
        let all = leases.all();
        let extended = join_all(all.iter().map(async |(name, tokens)| {
            let Some(entry) = catalog.get(name.as_str()) else { return };
            for tokens in tokens.chunks(EXTEND_MAX) {
                let extend =
                    |token: &LeaseToken| Extension { token: token.clone(), checkpoint: None };
                let extensions: Vec<Extension> = tokens.iter().map(extend).collect();
                match store.extend(&entry, &extensions, lease).await {
                    Ok((_, statuses)) => {
                        let gone = tokens.iter().zip(statuses).filter(|(_, s)| *s != Status::Ok);
                        gone.for_each(|(token, _)| leases.lose(token));
                    }
                    Err(error) => tracing::debug!(%error, "cannot extend leases"),
                }
            }
        }));
        let _ = timeout(lease / 3, extended).await;
    }
}
