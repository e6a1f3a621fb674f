//! The sender role: owns partitions, and delivers their lanes side by side, each in order.

mod breaker;
pub mod deliver;
mod destination;
mod holdings;
mod lane;
mod ownership;
mod partition_lease;
pub mod reporter;
mod tail;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use breaker::Hosts;
use destination::{Dependencies, DestinationSender, Gauge, Poke};
use domain::{DestinationName, OnExhausted};
use holdings::Holdings;
use outbound::http_client::Clients;
use ownership::{Freed, Ownership};
use partition_lease::PartitionLease;
use reporter::Owned;
use store::{Catalog, CatalogEntry, Delivering, HandOver, Store, Wake, already_here};
use tail::Tail;

/// The most destinations that one check for halted messages covers, over all senders. If more destinations have halted
/// messages, a round takes several seconds.
const HALTED_CHECK_MAX: usize = 1000;

/// The dependencies of the sender.
pub struct Sender {
    /// Redis.
    pub store: Store,
    /// The destinations.
    pub catalog: Catalog,
    /// Settings of the sender.
    pub config: config::Sender,
    /// Connects to receivers.
    pub clients: Clients,
    /// The deepest nesting of the JSON of batches and envelopes.
    pub json_depth_max: usize,
    /// The state that the sender shares with the reporter.
    pub owned: Owned,
}

/// The task of one destination under one lease of its partition.
struct Running {
    lease: Arc<PartitionLease>,
    poke: Arc<Poke>,
    gauge: Arc<Gauge>,
    task: JoinHandle<()>,
}

/// State of the periodic checks. Each second, a check covers some of the destinations.
#[derive(Default)]
struct Rounds {
    /// Destinations with dead letters whose age this round has still to check.
    expiring: Vec<DestinationName>,
    /// When the round began.
    expiring_since: Option<Instant>,
    /// The destinations for which Redis may hold a number of messages in delivery, for display.
    noted: HashSet<DestinationName>,
}

/// The tasks of destinations, and background tasks.
struct Work {
    sender: Sender,
    holdings: Arc<Holdings>,
    tail: Arc<Tail>,
    running: HashMap<DestinationName, Running>,
    /// The breakers of the hosts of receivers.
    hosts: Hosts,
    /// The scan for destinations with releasable lanes, in a separate task.
    scan: Option<JoinHandle<Vec<DestinationName>>>,
    /// True if partitions have changed since the scan began: scan again after it.
    scan_again: bool,
    rounds: Arc<tokio::sync::Mutex<Rounds>>,
    /// The housekeeping, in a separate task.
    housekeeping: Option<JoinHandle<()>>,
}

/// The time between two checks of the age of dead letters.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
/// The most destinations whose dead letters one check covers, over all senders.
const EXPIRED_CHECK_MAX: usize = 200;

impl Rounds {
    /// Stores how many messages are being delivered. Sets zero for destinations of the last call that are not in
    /// `counts`; a new owner then stores its own number. After an error, the next call tries again.
    async fn note_delivering(
        &mut self,
        store: &Store,
        mut counts: Vec<(DestinationName, Delivering)>,
    ) {
        let now: HashSet<_> = counts.iter().map(|(name, _)| name.clone()).collect();
        let none = |name: &DestinationName| (name.clone(), Delivering::default());
        counts.extend(self.noted.difference(&now).map(none));
        if counts.is_empty() {
            return;
        }
        match store.note_delivering(&counts).await {
            Ok(()) => self.noted = now,
            Err(error) => {
                tracing::debug!(%error, "cannot store how many messages are being delivered");
                self.noted.extend(now);
            }
        }
    }

    /// The next destinations whose dead letters may be too old.
    fn expiring(&mut self, owned: &Owned, most: usize) -> Vec<DestinationName> {
        if self.expiring.is_empty()
            && self.expiring_since.is_none_or(|since| since.elapsed() >= EXPIRE_EVERY)
        {
            self.expiring_since = Some(Instant::now());
            self.expiring = owned.with_dead_letters().into_iter().collect();
        }
        self.expiring.split_off(self.expiring.len().saturating_sub(most))
    }
}

/// The number of destinations that this pod checks, in proportion to its partitions, so that the
/// load on Redis does not grow with the number of senders.
fn part_of(check_max: usize, owned: usize, partitions: u16) -> usize {
    (check_max * owned).div_ceil(usize::from(partitions.max(1))).max(1)
}

impl Sender {
    /// Runs until `stop`. Then gives its partitions back; deliveries in flight have the time `drain` to end.
    pub async fn run(
        self,
        mut wakes: broadcast::Receiver<Wake>,
        stop: CancellationToken,
        drain: Duration,
    ) {
        let lease = Duration::from_millis(self.config.lease_ms);
        let holdings = Holdings::new(self.store.clone(), lease);
        self.owned.begin(holdings.clone());
        let (freed, stopping) = (Arc::new(Freed::default()), stop.child_token());
        let ownership = Ownership::new(holdings.clone(), freed.clone());
        // Runs concurrently with the events below, which must not wait for Redis.
        let mut sharing = std::pin::pin!(ownership.run(stopping.clone(), drain));
        let (tail, queued) = Tail::new();
        let publishing = tail.clone().publish(queued, self.store.clone(), stopping.clone());
        let _publishing = AbortOnDropHandle::new(tokio::spawn(publishing));
        let mut work = Work::new(self, holdings.clone(), tail);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut sharing => break,
                () = holdings.changed.notified() => {
                    work.sender.owned.note_gap();
                    telemetry::owned(holdings.partitions().len());
                    work.scan();
                }
                found = work.scanned() => {
                    found.iter().for_each(|name| work.poke(name, None));
                    if std::mem::take(&mut work.scan_again) {
                        work.scan();
                    }
                }
                wake = wakes.recv(), if !stopping.is_cancelled() => {
                    if !work.take_wake(wake, &freed) {
                        stopping.cancel();
                    }
                    // Take all wake-ups that have arrived, so that their releases share calls.
                    while let Some(wake) = already_here(&mut wakes) {
                        work.take_wake(wake, &freed);
                    }
                }
                _ = second.tick() => {
                    telemetry::owned(holdings.partitions().len());
                    work.scan();
                    work.run_housekeeping();
                }
            }
        }
    }
}

impl Work {
    fn new(sender: Sender, holdings: Arc<Holdings>, tail: Arc<Tail>) -> Work {
        let running = HashMap::new();
        let rounds = Arc::default();
        Work {
            sender,
            holdings,
            tail,
            running,
            hosts: Hosts::default(),
            scan: None,
            scan_again: false,
            rounds,
            housekeeping: None,
        }
    }

    /// Handles a wake-up. False if there will be no more wake-ups.
    fn take_wake(&mut self, wake: Result<Wake, RecvError>, freed: &Freed) -> bool {
        match wake {
            Ok(Wake::Releasable(name, handed)) => self.poke(&name, handed),
            Ok(Wake::OwnerGone(partition)) => freed.note(partition),
            Ok(Wake::Everything) | Err(RecvError::Lagged(_)) => {
                self.sender.owned.note_gap();
                self.running.values().for_each(|running| running.poke.note_gap());
                self.scan();
            }
            Ok(Wake::Tail(of)) => self.tail.wants(of, Instant::now()),
            Ok(Wake::Waiting(_) | Wake::Result(..) | Wake::Definitions) => {}
            Err(RecvError::Closed) => return false,
        }
        true
    }

    /// Pokes the task of a destination, because lanes, or this message, may be releasable. Does
    /// nothing if this pod does not own its partition. Starts the task if there is none.
    fn poke(&mut self, name: &DestinationName, handed: Option<HandOver>) {
        let partition = self.sender.store.keys().partition_of(name);
        let Some(lease) = self.holdings.of(partition) else { return };
        self.sender.owned.note_woken(name);
        if let Some(running) = self.running.get(name)
            && Arc::ptr_eq(&running.lease, &lease)
            && !running.task.is_finished()
            && running.poke.poke(handed)
        {
            return;
        }
        let poke = Arc::new(Poke::default());
        let gauge = Arc::new(Gauge::default());
        poke.poke(None);
        let task = DestinationSender::new(Dependencies {
            store: self.sender.store.clone(),
            catalog: self.sender.catalog.clone(),
            clients: self.sender.clients.clone(),
            hosts: self.hosts.clone(),
            json_depth_max: self.sender.json_depth_max,
            release_batch_max: self.sender.config.release_batch_max,
            name: name.clone(),
            lease: lease.clone(),
            tail: self.tail.clone(),
            gauge: gauge.clone(),
        });
        let task = lease.tasks.spawn(task.run(poke.clone()));
        self.running.insert(name.clone(), Running { lease, poke, gauge, task });
    }

    /// Scans all owned partitions for destinations with releasable lanes. [`Work::scanned`] returns them.
    fn scan(&mut self) {
        self.running.retain(|_, running| !running.lease.is_over() && !running.task.is_finished());
        let partitions = self.holdings.partitions();
        if partitions.is_empty() {
            return;
        }
        if self.scan.is_some() {
            self.scan_again = true;
            return;
        }
        let (store, catalog) = (self.sender.store.clone(), self.sender.catalog.clone());
        self.scan = Some(tokio::spawn(async move {
            let wait_max_ms = |name: &str| {
                catalog.get(name).map_or(0, |entry| entry.destination.delivery.wait_max_ms())
            };
            match store.releasable(&partitions, wait_max_ms).await {
                Ok(found) => found.iter().flatten().filter_map(|name| name.parse().ok()).collect(),
                Err(error) => {
                    tracing::debug!(%error, "cannot scan for releasable lanes");
                    Vec::new()
                }
            }
        }));
    }

    /// Resolves when a scan has ended, with the destinations that it found.
    async fn scanned(&mut self) -> Vec<DestinationName> {
        let Some(scan) = &mut self.scan else { return std::future::pending().await };
        let found = scan.await.unwrap_or_default();
        self.scan = None;
        found
    }

    /// Recovers messages whose leases expired or whose delay is over, runs the checks that are due, and
    /// stores how many messages are being delivered. Uses a separate task, because this may take long.
    fn run_housekeeping(&mut self) {
        let partitions = self.holdings.partitions();
        if self.housekeeping.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let waiting = self.sender.clients.places().waiting();
        let counts = self.running.iter().map(|(name, running)| {
            // `waiting` also counts transforms of the destination.
            let gauged = running.gauge.get();
            let awaiting = waiting.get(name).copied().unwrap_or_default().min(gauged.in_flight);
            let messages = gauged.in_flight - awaiting;
            let probe_at_ms = gauged.probe_at_ms;
            (name.clone(), Delivering { messages, awaiting_connection: awaiting, probe_at_ms })
        });
        let counts: Vec<_> = counts.filter(|(_, now)| *now != Delivering::default()).collect();
        self.sender.owned.set_awaiting_connection(waiting.into_keys().collect());
        let gauged = self.running.iter().map(|(name, running)| (name, running.gauge.get()));
        let limited = gauged.clone().filter(|(_, gauged)| gauged.is_rate_limited);
        self.sender.owned.set_rate_limited(limited.map(|(name, _)| name.clone()).collect());
        let probed = gauged.filter(|(_, gauged)| gauged.probe_at_ms.is_some());
        self.sender.owned.set_probed(probed.map(|(name, _)| name.clone()).collect());
        telemetry::delivering(counts.iter().map(|(_, now)| now.messages).sum());
        let (store, catalog) = (self.sender.store.clone(), self.sender.catalog.clone());
        let (rounds, owned) = (self.rounds.clone(), self.sender.owned.clone());
        let (count, all) = (partitions.len(), store.keys().partitions());
        let part = move |check_max| part_of(check_max, count, all);
        self.housekeeping = Some(tokio::spawn(async move {
            let mut rounds = rounds.lock().await;
            rounds.note_delivering(&store, counts).await;
            if !partitions.is_empty()
                && let Err(error) = store.recover_owned(&partitions).await
            {
                tracing::debug!(%error, "cannot recover overdue messages");
            }
            // Skip destinations that another sender owns now: that sender checks them.
            let entry = |name: DestinationName| {
                catalog.get(name.as_str()).filter(|entry| partitions.contains(&entry.partition))
            };
            let is_concerned =
                |entry: &Arc<CatalogEntry>| entry.destination.on_exhausted != OnExhausted::Halt;
            let halted = owned.maybe_halted().into_iter().filter_map(entry).filter(is_concerned);
            let halted: Vec<_> = halted.take(part(HALTED_CHECK_MAX)).collect();
            store.apply_policy_to_all_halted(&halted).await;
            let expiring = rounds.expiring(&owned, part(EXPIRED_CHECK_MAX));
            let expiring: Vec<_> = expiring.into_iter().filter_map(entry).collect();
            store.expire_dead_letters(&expiring).await;
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_senders_together_ask_no_more_the_more_of_them_there_are() {
        assert_eq!(part_of(500, 64, 64), 500);
        assert_eq!((part_of(500, 1, 64), part_of(500, 0, 64)), (8, 1));
        for pods in [2usize, 3, 7, 64] {
            let owned = |pod| 64 / pods + usize::from(pod < 64 % pods);
            let asked: usize = (0..pods).map(|pod| part_of(500, owned(pod), 64)).sum();
            assert!((500..500 + pods).contains(&asked), "{asked} by {pods} pods");
        }
    }
}
