//! Reports, as metrics, the pending, halted and dead messages of the destinations in owned partitions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use domain::DestinationName;
use store::{Catalog, CatalogEntry, Round, Stats, Store, Trouble};
use telemetry::Backlog;

/// The shortest time between two rounds.
const EVERY: Duration = Duration::from_secs(5);
/// The most destinations that one query covers, over all senders. With more, a round takes several queries.
pub(super) const BACKLOGS_CHECK_MAX: usize = 500;
/// The most destinations to check for damaged messages at a time. A check reads some halted messages of each.
const DAMAGED_CHECK_MAX: usize = 10;

/// The destinations whose backlog this pod reports.
#[derive(Default)]
pub(super) struct Backlogs {
    round: Round,
    begun: Option<Instant>,
    /// Reported in the last round.
    reported: HashSet<DestinationName>,
    /// Reported so far in this round.
    reporting: HashSet<DestinationName>,
    /// Destinations known to have pending messages.
    pending: BTreeSet<DestinationName>,
    /// Destinations that need attention, why, and how many messages that concerns.
    attention: HashMap<DestinationName, Vec<(Trouble, u64)>>,
    /// Destinations with halted messages, and the number of these already checked for damage.
    halted: BTreeMap<DestinationName, usize>,
    /// The destination in `halted` that was checked last.
    checked: Option<DestinationName>,
}

impl Backlogs {
    /// Reports the numbers of the next `some` destinations of these partitions, if it is time. At
    /// the end of a round, stops reporting destinations that are gone or belong to another pod now.
    pub(super) async fn report(
        &mut self,
        store: &Store,
        catalog: &Catalog,
        partitions: &[u16],
        some: usize,
    ) {
        if self.reporting.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            self.begun = Some(Instant::now());
        }
        let (some, is_over) = catalog.some(&mut self.round, partitions, some);
        self.report_some(store, &some).await;
        self.find_damaged(store, catalog).await;
        if is_over {
            let reporting = std::mem::take(&mut self.reporting);
            for name in self.reported.difference(&reporting) {
                telemetry::backlog(name.as_str(), None);
                self.pending.remove(name);
                self.attention.remove(name);
            }
            self.reported = reporting;
            for cause in Trouble::ALL {
                let all = self.attention.iter().flat_map(|(name, causes)| {
                    let of_it = causes.iter().filter(|(one, _)| *one == cause);
                    of_it.map(|(_, count)| (name.as_str(), *count))
                });
                telemetry::needs_attention(cause.as_str(), all.collect());
            }
        }
    }

    /// Destinations with pending messages.
    pub(super) fn pending(&self) -> &BTreeSet<DestinationName> {
        &self.pending
    }

    /// Searches the halted messages of some destinations, in turn, for damaged ones: the process
    /// that found the damage may have ended.
    async fn find_damaged(&mut self, store: &Store, catalog: &Catalog) {
        for _ in 0..DAMAGED_CHECK_MAX.min(self.halted.len()) {
            let after = self.checked.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.halted.range((after, Bound::Unbounded)).next();
            let Some((name, from)) = next.or_else(|| self.halted.iter().next()) else { return };
            let (name, from) = (name.clone(), *from);
            self.checked = Some(name.clone());
            let found = match catalog.get(name.as_str()) {
                Some(entry) => store.find_damaged(&entry, from).await,
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

    async fn report_some(&mut self, store: &Store, some: &[Arc<CatalogEntry>]) {
        let numbers = store.backlogs_each(some).await;
        let known = some.iter().zip(&numbers);
        let known: Vec<(&CatalogEntry, &Stats)> =
            known.filter_map(|(entry, stats)| Some((&**entry, stats.as_ref().ok()?))).collect();
        for ((entry, _), found) in known.iter().zip(store.attention(&known).await) {
            let name = entry.destination.name.clone();
            match found.is_empty() {
                true => drop(self.attention.remove(&name)),
                false => {
                    let causes = found.iter().map(|one| (one.cause, one.count)).collect();
                    self.attention.insert(name, causes);
                }
            }
        }
        for (entry, numbers) in some.iter().zip(numbers) {
            let name = &entry.destination.name;
            match numbers {
                Ok(numbers) => {
                    let backlog = Backlog {
                        pending: numbers.pending,
                        pending_bytes: numbers.pending_bytes,
                        waiting: numbers.waiting,
                        leased: numbers.processing,
                        ready: numbers.ready + numbers.delivering,
                        delayed: numbers.delayed,
                        halted: numbers.halted,
                        dead_letters: numbers.dead_letters,
                        dead_letters_max: entry.destination.dead_letters_max,
                    };
                    telemetry::backlog(name.as_str(), Some(backlog));
                    match numbers.pending {
                        0 => drop(self.pending.remove(name)),
                        _ => drop(self.pending.insert(name.clone())),
                    }
                    if numbers.halted > 0 {
                        self.halted.entry(name.clone()).or_default();
                    }
                }
                // Keep the last numbers until the server answers.
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot read a backlog");
                }
            }
            self.reporting.insert(name.clone());
        }
    }
}
