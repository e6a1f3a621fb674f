//! Reports metrics of the destinations in owned partitions: their pending, halted and dead messages.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::Owned;
use domain::DestinationName;
use store::{Catalog, CatalogEntry, Changed, ChangedNames, Round, Stats, Store, Trouble};
use telemetry::Backlog;

/// The shortest time between two rounds.
const EVERY: Duration = Duration::from_secs(5);
/// The most destinations that one query covers, over all senders. With more destinations, a round takes several
/// queries.
pub(super) const BACKLOGS_CHECK_MAX: usize = 500;
/// The most destinations to check for damaged messages at a time. A check reads some of their halted messages.
const DAMAGED_CHECK_MAX: usize = 10;
/// Each round also reads some quiet destinations, in turn, even without a wake-up: the number of one query, divided by
/// this.
const QUIET_PART: usize = 25;

/// The destinations whose backlog this pod reports. Many destinations are quiet for long, so a round reads only the
/// destinations whose numbers may have changed.
pub(super) struct Backlogs {
    begun: Option<Instant>,
    /// Destinations that this round has still to read.
    due: BTreeSet<DestinationName>,
    /// The turn of the quiet destinations.
    quiet: Round,
    /// Destinations whose definitions have changed.
    changed: Changed,
    /// Destinations that this pod reports.
    reported: HashSet<DestinationName>,
    /// Destinations known to have pending messages.
    pending: BTreeSet<DestinationName>,
    /// Destinations that need attention: the causes, and the number of messages for each cause.
    attention: HashMap<DestinationName, Vec<(Trouble, u64)>>,
    /// Destinations with halted messages, and how many of these messages were already checked for damage.
    halted: BTreeMap<DestinationName, usize>,
    /// The destination in `halted` that was checked last.
    checked: Option<DestinationName>,
}

/// The partitions of a report.
#[derive(Clone, Copy)]
pub(super) struct Partitions<'a> {
    /// The partitions that this pod owns. It gets wake-ups for them.
    pub(super) owned: &'a [u16],
    /// The partitions without an owner. Each round reads all of their destinations.
    pub(super) unowned: &'a [u16],
}

impl Backlogs {
    pub(super) fn new(catalog: &Catalog) -> Backlogs {
        Backlogs {
            begun: None,
            due: BTreeSet::new(),
            quiet: Round::default(),
            changed: catalog.changed(),
            reported: HashSet::new(),
            pending: BTreeSet::new(),
            attention: HashMap::new(),
            halted: BTreeMap::new(),
            checked: None,
        }
    }

    /// Reports the numbers of the next `some` destinations of these partitions, if a round is due.
    pub(super) async fn report(
        &mut self,
        store: &Store,
        catalog: &Catalog,
        owned: &Owned,
        partitions: Partitions<'_>,
        some: usize,
    ) {
        if self.due.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            self.begun = Some(Instant::now());
            let quiet = some.div_ceil(QUIET_PART);
            self.begin_round(store, catalog, owned, partitions, quiet).await;
        }
        let mut next = Vec::new();
        while next.len() < some
            && let Some(name) = self.due.pop_first()
        {
            next.extend(catalog.get(name.as_str()));
        }
        self.report_some(store, owned, &next).await;
        self.find_damaged(store, catalog).await;
        if self.due.is_empty() {
            for cause in Trouble::ALL {
                let all = self.attention.iter().flat_map(|(name, causes)| {
                    let of_it = causes.iter().filter(|(one, _)| *one == cause);
                    of_it.map(|(_, count)| (name.as_str(), *count))
                });
                telemetry::needs_attention(cause.as_str(), all.collect());
            }
        }
    }

    /// Finds the destinations to read in this round. Stops reporting destinations that are gone or belong to another
    /// pod now.
    async fn begin_round(
        &mut self,
        store: &Store,
        catalog: &Catalog,
        owned: &Owned,
        partitions: Partitions<'_>,
        quiet: usize,
    ) {
        let of = |partitions: &[u16]| catalog.some(&mut Round::default(), partitions, usize::MAX).0;
        let (mine, unowned) = (of(partitions.owned), of(partitions.unowned));
        let in_motion = store.in_motion(partitions.owned).await;
        let (quiet, _) = catalog.some(&mut self.quiet, partitions.owned, quiet);
        let (mut told, mut is_any) = owned.take_woken();
        told.extend(quiet.iter().map(|entry| entry.destination.name.clone()));
        told.extend(owned.with_dead_letters());
        match self.changed.take() {
            ChangedNames::These(names) => told.extend(names),
            ChangedNames::Any => is_any = true,
        }
        let is_due = |entry: &CatalogEntry| {
            let name = &entry.destination.name;
            let moves = in_motion.as_ref().is_ok_and(|found| {
                found.names.contains(name) || found.cut.contains(&entry.partition)
            });
            is_any
                || moves
                || !self.reported.contains(name)
                || told.contains(name)
                || self.pending.contains(name)
                || self.attention.contains_key(name)
        };
        let due = mine.iter().filter(|entry| is_due(entry)).chain(&unowned);
        self.due = due.map(|entry| entry.destination.name.clone()).collect();
        let all: HashSet<_> =
            mine.iter().chain(&unowned).map(|entry| &entry.destination.name).collect();
        let gone: Vec<_> =
            self.reported.iter().filter(|name| !all.contains(name)).cloned().collect();
        for name in gone {
            telemetry::backlog(name.as_str(), None);
            self.reported.remove(&name);
            self.pending.remove(&name);
            self.attention.remove(&name);
            owned.set_unfinished(&name, false, false);
        }
    }

    /// The destinations with pending messages.
    pub(super) fn pending(&self) -> &BTreeSet<DestinationName> {
        &self.pending
    }

    /// Searches the halted messages of some destinations, in turn, for damaged messages: the process that found the
    /// damage may have ended.
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

    async fn report_some(&mut self, store: &Store, owned: &Owned, some: &[Arc<CatalogEntry>]) {
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
                    self.reported.insert(name.clone());
                    owned.set_unfinished(name, numbers.halted > 0, numbers.dead_letters > 0);
                    match numbers.pending {
                        0 => drop(self.pending.remove(name)),
                        _ => drop(self.pending.insert(name.clone())),
                    }
                    if numbers.halted > 0 {
                        self.halted.entry(name.clone()).or_default();
                    }
                }
                // Keep the last numbers until the server answers, in the next round.
                Err(error) => {
                    owned.note_woken(name);
                    tracing::debug!(destination = %name, %error, "cannot read a backlog");
                }
            }
        }
    }
}
