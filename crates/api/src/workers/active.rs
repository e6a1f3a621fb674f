//! Which destinations may have messages for workers: what wake-ups said, and once a second what Redis says. So a request
//! for a thousand destinations does not ask Redis about each.

use std::{
    collections::HashSet,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::broadcast, time::Instant};

use crate::Api;
use domain::DestinationName;
use store::{CatalogEntry, Claimers, StoreError, Wake, WakeKind, already_here};

/// The time between two queries. A lost wake-up delays a message for that long.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The most destinations of one partition that a query returns: those unserved for longest. Later queries find the
/// others.
const NAMES_MAX: usize = 1000;

/// The destinations that may have messages for workers.
#[derive(Default)]
pub(super) struct ActiveDestinations {
    known: Mutex<Known>,
    /// When Redis was last asked. One request asks for all.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    names: HashSet<DestinationName>,
    /// Wake-ups since the last request; `None` before the first one.
    wakes: Option<broadcast::Receiver<Wake>>,
    /// Some wake-ups were missed.
    has_gap: bool,
}

impl Known {
    fn hear(&mut self) {
        let Some(wakes) = &mut self.wakes else { return };
        while let Some(wake) = already_here(wakes) {
            match wake {
                Ok(Wake::Waiting(name)) => drop(self.names.insert(name)),
                Ok(Wake::Everything) | Err(_) => self.has_gap = true,
                Ok(_) => {}
            }
        }
    }
}

impl ActiveDestinations {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Those of these destinations that may have waiting messages.
    pub(super) async fn among(
        &self,
        api: &Api,
        all: Vec<Arc<CatalogEntry>>,
    ) -> Result<Vec<Arc<CatalogEntry>>, StoreError> {
        self.refresh(api).await?;
        let mut known = self.known();
        known.hear();
        let is_known = |entry: &Arc<CatalogEntry>| known.names.contains(&entry.destination.name);
        Ok(all.into_iter().filter(is_known).collect())
    }

    /// Asks Redis, if it is time or wake-ups were missed.
    async fn refresh(&self, api: &Api) -> Result<(), StoreError> {
        let mut asked = self.asked.lock().await;
        let before = {
            let mut known = self.known();
            if known.wakes.is_none() {
                // Listen first and ask then, so that nothing is missed in between.
                known.wakes = Some(api.wakes.listen(WakeKind::Waiting));
                known.has_gap = true;
            }
            known.hear();
            if !known.has_gap && asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
                return Ok(());
            }
            known.has_gap = false;
            known.names.clone()
        };
        *asked = Some(Instant::now());
        let partitions: Vec<u16> = (0..api.store.keys().partitions()).collect();
        let found = api.store.active_of_all(&partitions, Claimers::Worker, NAMES_MAX).await;
        let found = found.inspect_err(|_| self.known().has_gap = true)?;
        let found: HashSet<DestinationName> =
            found.iter().flatten().filter_map(|name| name.parse().ok()).collect();
        let mut known = self.known();
        // Those that became known meanwhile stay.
        known.names.retain(|name| !before.contains(name) || found.contains(name));
        known.names.extend(found);
        Ok(())
    }

    /// A claim from this destination begins. It is not active unless the claim leaves messages, or a wake-up says so.
    pub(super) fn claiming(&self, name: &DestinationName) {
        let mut known = self.known();
        // Wake-ups from before belong to this claim.
        known.hear();
        known.names.remove(name);
    }

    /// A claim may have left messages.
    pub(super) fn may_have_more(&self, name: DestinationName) {
        self.known().names.insert(name);
    }
}
