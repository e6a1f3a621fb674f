//! How much is pending, halted and dead at the destinations of owned partitions, as metrics.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    domain::DestinationName,
    store::{Catalog, CatalogEntry, Round, Store},
    telemetry::{self, Backlog},
};

/// The shortest time between two rounds.
const EVERY: Duration = Duration::from_secs(5);
/// The most destinations that one query covers, of all senders together: with more, a round takes
/// several queries.
pub(super) const BACKLOGS_LOOK_MAX: usize = 500;
/// The most destinations to check for damaged messages at a time: some halted messages of each.
const DAMAGED_LOOK_MAX: usize = 10;

/// The destinations whose backlog this pod reports.
#[derive(Default)]
pub(super) struct Backlogs {
    round: Round,
    begun: Option<Instant>,
    /// Reported in the last round.
    told: HashSet<DestinationName>,
    /// Reported so far in this round.
    telling: HashSet<DestinationName>,
    /// Destinations with halted messages, and how far these have been checked for damage.
    halted: BTreeMap<DestinationName, usize>,
    /// The last of them that was checked.
    looked_at: Option<DestinationName>,
}

impl Backlogs {
    /// Reports the numbers of the next `some` destinations of these partitions, if it is time. At the
    /// end of a round, stops reporting those that are gone or belong to another pod now.
    pub(super) async fn tell(
        &mut self,
        store: &Store,
        catalog: &Catalog,
        partitions: &[u16],
        some: usize,
    ) {
        if self.telling.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            self.begun = Some(Instant::now());
        }
        let (some, is_over) = catalog.some(&mut self.round, partitions, some);
        self.tell_some(store, &some).await;
        self.find_damaged(store, catalog).await;
        if is_over {
            let telling = std::mem::take(&mut self.telling);
            for name in self.told.difference(&telling) {
                telemetry::backlog(name.as_str(), None);
            }
            self.told = telling;
        }
    }

    /// Looks for damaged messages among the halted ones, at some destinations in turn: the process that
    /// found the damage may have ended.
    async fn find_damaged(&mut self, store: &Store, catalog: &Catalog) {
        for _ in 0..DAMAGED_LOOK_MAX.min(self.halted.len()) {
            let after = self.looked_at.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.halted.range((after, Bound::Unbounded)).next();
            let Some((name, from)) = next.or_else(|| self.halted.iter().next()) else { return };
            let (name, from) = (name.clone(), *from);
            self.looked_at = Some(name.clone());
            let found = match catalog.get(name.as_str()) {
                Some(known) => store.find_damaged(&known, from).await,
                None => Ok(None),
            };
            match found {
                Ok(Some(next)) => drop(self.halted.insert(name, next)),
                Ok(None) => drop(self.halted.remove(&name)),
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot check for damaged messages");
                }
            }
        }
    }

    async fn tell_some(&mut self, store: &Store, some: &[Arc<CatalogEntry>]) {
        let numbers = store.backlogs_each(some).await;
        for (known, numbers) in some.iter().zip(numbers) {
            let name = &known.destination.name;
            match numbers {
                Ok(numbers) => {
                    let backlog = Backlog {
                        pending: numbers.pending,
                        pending_bytes: numbers.pending_bytes,
                        halted: numbers.halted,
                        dead_letters: numbers.dead_letters,
                    };
                    telemetry::backlog(name.as_str(), Some(backlog));
                    if numbers.halted > 0 {
                        self.halted.entry(name.clone()).or_default();
                    }
                }
                // The last numbers stay until the server answers.
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot read a backlog");
                }
            }
            self.telling.insert(name.clone());
        }
    }
}
