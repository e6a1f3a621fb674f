//! Asks Redis which destinations have waiting messages. A poll asks about all destinations, once a second. A check asks
//! about the destinations that were left to other processors, after these had time to claim.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::Claims;
use domain::DestinationName;
use store::{CatalogEntry, Claimers, PodInfo, StoreError};

/// The role of processors in the list of live pods.
const ROLE: &str = "processor";
/// The most destinations of one partition that one poll returns; later polls find the others.
const POLL_MAX: usize = 100;

/// A poll for destinations with waiting messages.
pub(super) type Poll = BoxFuture<'static, Found>;

/// The result of a poll.
pub(super) struct Found {
    /// The names of destinations with waiting messages, by partition.
    active: Result<Vec<(u16, Vec<String>)>, StoreError>,
    /// The live pods.
    pods: Result<Vec<PodInfo>, StoreError>,
}

/// A check which of the destinations that were left to other processors still have waiting messages.
pub(super) type Check = BoxFuture<'static, Result<Vec<Arc<CatalogEntry>>, StoreError>>;

impl Claims {
    /// Starts to poll all partitions for destinations with waiting messages. Runs in parallel, so a server that does
    /// not answer delays only its own partitions.
    pub(crate) fn start_poll(&mut self) {
        let catalog = &self.catalog;
        let is_there = |name: &DestinationName| catalog.get(name.as_str()).is_some();
        let changed = self.changed.take();
        changed.sweep(&mut self.call_sequences, is_there);
        changed.sweep(&mut self.unanswered, is_there);
        changed.sweep(self.sizes.all(), is_there);
        let failed = std::mem::take(&mut self.failed);
        failed.into_iter().for_each(|name| self.hint(name));
        if self.poll.is_some() {
            self.poll_again = true;
            return;
        }
        let store = self.store.clone();
        // Without a free slot, this only asks which pods are alive.
        let count = if self.slots.any_free() { store.keys().partitions() } else { 0 };
        let poll = async move {
            let partitions: Vec<u16> = (0..count).collect();
            let active = store.active_of_all(&partitions, Claimers::Builtin, POLL_MAX);
            let (active, pods) = tokio::join!(active, store.live_pods());
            Found { active, pods }
        };
        self.poll = Some(poll.boxed());
    }

    /// Stops the polls and the checks.
    pub(crate) fn stop_poll(&mut self) {
        (self.poll, self.check) = (None, None);
        self.poll_again = false;
        self.claim_priority.clear();
    }

    /// Asks which of the destinations that were left to other processors still have waiting messages.
    pub(super) fn start_check(&mut self) {
        let names = self.claim_priority.take(Instant::now());
        let entries = names.iter().filter_map(|name| self.catalog.get(name.as_str()));
        let entries: Vec<_> =
            entries.filter(|entry| entry.claimers() == Claimers::Builtin).collect();
        // Check even without a free slot: the messages that still wait are claimed once a slot is free.
        if !entries.is_empty() {
            let store = self.store.clone();
            self.check = Some(async move { store.active_among(entries).await }.boxed());
        }
    }

    pub(super) fn checked(&mut self, found: Result<Vec<Arc<CatalogEntry>>, StoreError>) {
        self.check = None;
        match found {
            Ok(found) => {
                found.into_iter().for_each(|entry| self.hint(entry.destination.name.clone()));
            }
            // The next poll finds these destinations.
            Err(error) => tracing::debug!(%error, "cannot check for waiting messages"),
        }
    }

    pub(super) fn polled(&mut self, found: Found) {
        self.poll = None;
        if std::mem::take(&mut self.poll_again) {
            self.start_poll();
        }
        match found.pods {
            Ok(pods) => {
                let processors = pods.into_iter().filter(|pod| pod.has_role(ROLE));
                self.claim_priority.live(processors.map(|pod| pod.pod));
            }
            // Keep the last list: those processors are probably still alive.
            Err(error) => tracing::debug!(%error, "cannot read which processors are alive"),
        }
        match found.active {
            Ok(found) => {
                let names = found.iter().flat_map(|(_, names)| names);
                let names = names.filter_map(|name| name.parse().ok());
                names.for_each(|name| self.woken(name));
            }
            Err(error) => tracing::debug!(%error, "cannot poll for waiting messages"),
        }
    }
}
