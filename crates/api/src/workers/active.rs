//! The destinations that may have messages for workers: wake-ups name them, and one query to Redis per second. So a
//! request for a thousand destinations does not ask Redis about each of them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::broadcast, time::Instant};

use crate::Api;
use domain::DestinationName;
use store::{CatalogEntry, Claimers, StoreError, Wake, WakeKind, already_here};

/// The time between two queries. If a wake-up is lost, the next query finds its destination.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The most destinations of one partition that a query returns: the destinations that workers have not served for
/// longest. Later queries return the others.
const NAMES_MAX: usize = 1000;

/// The destinations that may have messages for workers.
#[derive(Default)]
pub(super) struct ActiveDestinations {
    known: Mutex<Known>,
    /// When Redis was last asked. One query serves all requests.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    names: HashSet<DestinationName>,
    /// The names added since the last query began.
    new: HashSet<DestinationName>,
    /// Partitions with more active destinations than a query returns: each of their destinations may be active.
    cut: HashSet<u16>,
    /// Wake-ups since the last request; `None` before the first one.
    wakes: Option<broadcast::Receiver<Wake>>,
    /// True if wake-ups were missed.
    has_gap: bool,
    /// True once Redis has answered a query.
    is_ready: bool,
}

impl Known {
    fn hear(&mut self) {
        while let Some(wake) = self.wakes.as_mut().and_then(already_here) {
            match wake {
                Ok(Wake::Waiting(name)) => self.insert(name),
                Ok(Wake::Everything) | Err(_) => self.has_gap = true,
                Ok(_) => {}
            }
        }
    }

    fn insert(&mut self, name: DestinationName) {
        if !self.new.contains(&name) {
            self.names.insert(name.clone());
            self.new.insert(name);
        }
    }
}

impl ActiveDestinations {
    /// Returns the given destinations that may have waiting messages.
    pub(super) async fn among(
        &self,
        api: &Api,
        all: Vec<Arc<CatalogEntry>>,
    ) -> Result<Vec<Arc<CatalogEntry>>, StoreError> {
        self.refresh(api).await?;
        let mut known = self.known.lock();
        known.hear();
        let is_known = |entry: &Arc<CatalogEntry>| {
            known.names.contains(&entry.destination.name) || known.cut.contains(&entry.partition)
        };
        Ok(all.into_iter().filter(is_known).collect())
    }

    /// Asks Redis, if a second has passed or wake-ups were missed. Meanwhile, other requests use the known names: a
    /// server that does not answer must not keep them from messages on other servers.
    async fn refresh(&self, api: &Api) -> Result<(), StoreError> {
        let is_ready = self.known.lock().is_ready;
        let mut asked = match self.asked.try_lock() {
            Ok(asked) => asked,
            Err(_) if is_ready => return Ok(()),
            Err(_) => self.asked.lock().await,
        };
        {
            let mut known = self.known.lock();
            if known.wakes.is_none() {
                // Listens before it asks, so that it misses no wake-up in between.
                known.wakes = Some(api.wakes.listen(WakeKind::Waiting));
                known.has_gap = true;
            }
            known.hear();
            if !known.has_gap && asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
                return Ok(());
            }
            known.has_gap = false;
            known.new.clear();
        }
        *asked = Some(Instant::now());
        let partitions: Vec<u16> = (0..api.store.keys().partitions()).collect();
        let found = api.store.active_of_all(&partitions, Claimers::Worker, NAMES_MAX).await;
        let mut known = self.known.lock();
        let found = found.inspect_err(|_| known.has_gap = true)?;
        let is_cut = |(_, names): &&(u16, Vec<String>)| names.len() >= NAMES_MAX;
        known.cut = found.iter().filter(is_cut).map(|(partition, _)| *partition).collect();
        let names = found.iter().flat_map(|(_, names)| names);
        known.names = names.filter_map(|name| name.parse().ok()).collect();
        let Known { names, new, is_ready, .. } = &mut *known;
        names.extend(new.iter().cloned());
        *is_ready = true;
        Ok(())
    }

    /// Notes that a claim from this destination begins. The destination is active again only if the claim leaves
    /// messages, or a later wake-up names it.
    pub(super) fn claiming(&self, name: &DestinationName) {
        let mut known = self.known.lock();
        // This claim serves the wake-ups received so far.
        known.hear();
        known.names.remove(name);
        known.new.remove(name);
    }

    /// Notes that a claim may have left messages.
    pub(super) fn may_have_more(&self, name: DestinationName) {
        self.known.lock().insert(name);
    }
}
