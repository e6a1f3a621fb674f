//! Reports, as metrics, pending messages and the causes that block them, for the partitions that this pod owns. The
//! first of all live pods also reports partitions without an owner, even if no pod has the role sender.

mod backlogs;
mod blocked;

use std::{collections::HashSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{holdings::Holdings, part_of};
use backlogs::{BACKLOGS_CHECK_MAX, Backlogs, Partitions};
use blocked::{Around, Blocked, HEADS_CHECK_MAX};
use domain::DestinationName;
use store::{Catalog, Ownership, Store};

/// The most destinations that one query covers in partitions without an owner. Few, because no pod delivers for them.
const UNOWNED_CHECK_MAX: usize = 50;
/// The time between two reads of the live pods and the partitions without an owner.
const PODS_CHECK_EVERY: Duration = Duration::from_secs(5);

/// The state of this process's sender; empty if it has none. Cheap to clone.
#[derive(Clone, Default)]
pub struct Owned(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    holdings: Option<Arc<Holdings>>,
    rate_limited: HashSet<DestinationName>,
    awaiting_connection: HashSet<DestinationName>,
    probed: HashSet<DestinationName>,
    /// Destinations that got wake-ups since the last report, and since the last check of halted messages.
    woken: HashSet<DestinationName>,
    woken_to_check: HashSet<DestinationName>,
    /// True if wake-ups were missed since the last report: any destination may have changed.
    has_gap: bool,
    /// Destinations with halted messages, and destinations with dead letters, as last reported.
    halted: HashSet<DestinationName>,
    dead: HashSet<DestinationName>,
}

impl Owned {
    pub(super) fn begin(&self, holdings: Arc<Holdings>) {
        self.0.lock().holdings = Some(holdings);
    }

    /// Sets the destinations whose next delivery waits for their rate limit.
    pub(super) fn set_rate_limited(&self, names: HashSet<DestinationName>) {
        self.0.lock().rate_limited = names;
    }

    /// Sets the destinations with deliveries that wait for a connection.
    pub(super) fn set_awaiting_connection(&self, names: HashSet<DestinationName>) {
        self.0.lock().awaiting_connection = names;
    }

    /// Sets the destinations whose receivers fail, and whose lanes wait for a probe.
    pub(super) fn set_probed(&self, names: HashSet<DestinationName>) {
        self.0.lock().probed = names;
    }

    /// Notes that messages of this destination may have left or halted.
    pub(super) fn note_woken(&self, name: &DestinationName) {
        let mut state = self.0.lock();
        let State { woken, woken_to_check, .. } = &mut *state;
        for names in [woken, woken_to_check] {
            if !names.contains(name) {
                names.insert(name.clone());
            }
        }
    }

    /// Notes that wake-ups were missed, or that partitions came or went.
    pub(super) fn note_gap(&self) {
        self.0.lock().has_gap = true;
    }

    /// The destinations that got wake-ups since the last report; and true if any other destination may have changed
    /// too.
    fn take_woken(&self) -> (HashSet<DestinationName>, bool) {
        let mut state = self.0.lock();
        (std::mem::take(&mut state.woken), std::mem::take(&mut state.has_gap))
    }

    fn set_unfinished(&self, name: &DestinationName, is_halted: bool, has_dead_letters: bool) {
        let mut state = self.0.lock();
        let State { halted, dead, .. } = &mut *state;
        for (names, is_in) in [(halted, is_halted), (dead, has_dead_letters)] {
            match is_in {
                true => drop(names.insert(name.clone())),
                false => drop(names.remove(name)),
            }
        }
    }

    /// Destinations that may have halted messages: first the destinations that had some, beginning with a random one;
    /// then the destinations that got wake-ups since the last call.
    pub(super) fn maybe_halted(&self) -> Vec<DestinationName> {
        let mut state = self.0.lock();
        let woken = std::mem::take(&mut state.woken_to_check);
        let mut names: Vec<_> = state.halted.iter().cloned().collect();
        let start = rand::random_range(0..names.len().max(1));
        names.rotate_left(start);
        names.extend(woken.into_iter().filter(|name| !state.halted.contains(name)));
        names
    }

    /// Destinations with dead letters.
    pub(super) fn with_dead_letters(&self) -> HashSet<DestinationName> {
        self.0.lock().dead.clone()
    }

    fn is_probed(&self, name: &DestinationName) -> bool {
        self.0.lock().probed.contains(name)
    }

    fn awaits_connection(&self, name: &DestinationName) -> bool {
        self.0.lock().awaiting_connection.contains(name)
    }

    fn is_rate_limited(&self, name: &DestinationName) -> bool {
        self.0.lock().rate_limited.contains(name)
    }

    fn partitions(&self) -> Vec<u16> {
        self.0.lock().holdings.as_ref().map(|holdings| holdings.partitions()).unwrap_or_default()
    }

    /// How long this pod, as the owner of this partition, must still wait after a failover.
    /// `None` if it does not own the partition.
    fn takeover_wait(&self, partition: u16) -> Option<Duration> {
        let state = self.0.lock();
        Some(state.holdings.as_ref()?.of(partition)?.takeover_wait())
    }
}

/// The task that reports.
pub struct Reporter {
    store: Store,
    catalog: Catalog,
    owned: Owned,
    has_processor: bool,
    /// Partitions without an owner that this pod reports.
    unowned: Vec<u16>,
    pods_checked: Option<Instant>,
    backlogs: Backlogs,
    blocked: Blocked,
}

impl Reporter {
    /// A reporter for this process.
    pub fn new(store: Store, catalog: Catalog, owned: Owned) -> Reporter {
        Reporter {
            blocked: Blocked::new(store.clone(), catalog.clone()),
            backlogs: Backlogs::new(&catalog),
            store,
            catalog,
            owned,
            has_processor: true,
            unowned: Vec::new(),
            pods_checked: None,
        }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        telemetry::partitions(self.store.keys().partitions());
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = second.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.report() => {}
            }
        }
    }

    async fn report(&mut self) {
        if self.pods_checked.is_none_or(|checked| checked.elapsed() >= PODS_CHECK_EVERY) {
            self.pods_checked = Some(Instant::now());
            self.check_pods().await;
        }
        let mine = self.owned.partitions();
        self.unowned.retain(|partition| !mine.contains(partition));
        let (owned, all) = (mine.len(), self.store.keys().partitions());
        let more = if self.unowned.is_empty() { 0 } else { UNOWNED_CHECK_MAX };
        let backlogs = part_of(BACKLOGS_CHECK_MAX, owned, all) + more;
        let heads = part_of(HEADS_CHECK_MAX, owned + self.unowned.len(), all);
        let partitions = Partitions { owned: &mine, unowned: &self.unowned };
        let (store, catalog) = (&self.store, &self.catalog);
        self.backlogs.report(store, catalog, &self.owned, partitions, backlogs).await;
        let has_processor = self.has_processor;
        let around = Around { owned: &self.owned, has_processor, refuses_writes: false };
        self.blocked.sample(self.backlogs.pending(), heads, around).await;
    }

    /// Reads the live pods, and whether this pod is the first. After an error, keeps the last result.
    async fn check_pods(&mut self) {
        let Ok(pods) = self.store.live_pods().await else { return };
        self.has_processor = pods.iter().any(|pod| pod.has_role("processor"));
        let is_first = pods.first().is_some_and(|pod| pod.pod == self.store.pod());
        self.unowned = Vec::new();
        if is_first {
            let owned: HashSet<u16> = self.owned.partitions().into_iter().collect();
            let others = (0..self.store.keys().partitions()).filter(|one| !owned.contains(one));
            let others: Vec<u16> = others.collect();
            let owners = self.store.owners(&others).await;
            let free = others
                .iter()
                .zip(owners)
                .filter(|(_, owner)| owner.as_ref().is_ok_and(|found| found.owner.is_none()));
            self.unowned = free.map(|(partition, _)| *partition).collect();
        }
    }
}

/// The owner of a partition, as far as this reporter knows.
fn ownership_of(owned: &Owned, pod: &str, partition: u16) -> Ownership {
    let Some(wait) = owned.takeover_wait(partition) else { return Ownership::default() };
    let (owner, takeover_wait_ms) = (Some(pod.to_owned()), wait.as_millis() as u64);
    Ownership { owner, takeover_wait_ms, ..Ownership::default() }
}
