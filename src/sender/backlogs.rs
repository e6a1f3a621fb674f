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

/// How often a destination is looked at, at most.
const EVERY: Duration = Duration::from_secs(5);
/// The most destinations that one look asks for, of all senders together: with more, a round takes
/// several looks.
pub(super) const BACKLOGS_LOOK_MAX: usize = 500;
/// How many of these are looked at for damaged messages: a part of the halted ones of each.
const DAMAGED_LOOK_MAX: usize = 10;

/// What this pod has told of.
#[derive(Default)]
pub(super) struct Backlogs {
    round: Round,
    begun: Option<Instant>,
    /// In the last round, and so far in this one.
    told: HashSet<DestinationName>,
    telling: HashSet<DestinationName>,
    /// Destinations with halted messages, and how far these have been looked at for damaged ones.
    halted: BTreeMap<DestinationName, usize>,
    /// The last of them that was looked at.
    looked_at: Option<DestinationName>,
}

impl Backlogs {
    /// Tells the numbers of so many of these partitions' destinations, if it is time. Those that are
    /// gone, or that another pod has now, end with the round.
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

    /// Looks for damaged messages among those that are halted, at some destinations in turn: who met
    /// them may not be there any more.
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
                    tracing::debug!(destination = %name, %error, "cannot look for what is damaged");
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
                // What was told stays told until its server answers.
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot look how much is pending");
                }
            }
            self.telling.insert(name.clone());
        }
    }
}
