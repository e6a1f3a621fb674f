//! The sender role: owns partitions, and delivers their lanes, each in order, side by side.

mod backlogs;
pub mod deliver;
mod destination;
mod holdings;
mod lane;
mod ownership;
mod partition_lease;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{sync::broadcast, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    config,
    domain::DestinationName,
    faults::planted,
    store::{Catalog, Round, Store, Wake},
    telemetry,
};
use backlogs::{BACKLOGS_LOOK_MAX, Backlogs};
use destination::{DestinationSender, Gauge, Poke};
use holdings::Holdings;
use ownership::{Freed, Ownership};
use partition_lease::PartitionLease;

/// The most destinations that one look for halted messages asks for, of all senders together. With more,
/// a round takes several seconds.
const HALTED_LOOK_MAX: usize = 1000;

/// What the sender needs of the rest.
pub struct Sender {
    /// Redis.
    pub store: Store,
    /// The destinations.
    pub catalog: Catalog,
    /// Its settings.
    pub config: config::Sender,
    /// Sends HTTP deliveries.
    pub client: reqwest::Client,
    /// How deeply the JSON of batches and envelopes may nest.
    pub json_depth_max: usize,
}

/// The work on one destination under one lease of its partition.
struct Running {
    lease: Arc<PartitionLease>,
    poke: Arc<Poke>,
    gauge: Arc<Gauge>,
    task: JoinHandle<()>,
}

/// What goes round the destinations, some a second.
#[derive(Default)]
struct Rounds {
    /// For halted messages that nobody has seen to.
    halted: Round,
    /// For dead letters that are too old, and when it came to its end.
    expired: Round,
    expired_at: Option<Instant>,
    backlogs: Backlogs,
}

/// Everything that is under way.
struct Work {
    sender: Sender,
    holdings: Arc<Holdings>,
    running: HashMap<DestinationName, Running>,
    /// The look for lanes that may leave that is under way. Apart from the rest, so that leases are
    /// renewed meanwhile.
    looking: Option<JoinHandle<Vec<DestinationName>>>,
    /// To look again after it: something has changed since it began.
    look_again: bool,
    /// What goes round the destinations.
    rounds: Arc<tokio::sync::Mutex<Rounds>>,
    /// The housekeeping that is under way.
    house: Option<JoinHandle<()>>,
}

/// Dead letters are looked at for their age this often.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);
/// The most destinations whose dead letters one look asks for, of all senders together.
const EXPIRED_LOOK_MAX: usize = 200;

impl Rounds {
    /// True if a look at the age of dead letters goes on, or is due again.
    fn expires(&self) -> bool {
        self.expired_at.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY)
    }
}

/// This pod's part of a look, by its part of the partitions: all senders together ask no more of Redis
/// the more of them there are.
fn part_of(look_max: usize, owned: usize, partitions: u16) -> usize {
    (look_max * owned).div_ceil(usize::from(partitions.max(1))).max(1)
}

impl Sender {
    /// Runs until `stop`; then lets deliveries in flight end within `drain`, and gives its
    /// partitions back.
    pub async fn run(
        self,
        mut wakes: broadcast::Receiver<Wake>,
        stop: CancellationToken,
        drain: Duration,
    ) {
        let lease = Duration::from_millis(self.config.lease_ms);
        let holdings = Holdings::new(self.store.clone(), lease);
        let (freed, stopping) = (Arc::new(Freed::default()), stop.child_token());
        let ownership = Ownership::new(holdings.clone(), freed.clone());
        // Beside the rest: nothing that waits for Redis may hold up what is delivered.
        let mut sharing = std::pin::pin!(ownership.run(stopping.clone(), drain));
        let mut work = Work::new(self, holdings.clone());
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            telemetry::owned(holdings.partitions().len());
            tokio::select! {
                () = &mut sharing => break,
                () = holdings.changed.notified() => work.look(),
                found = work.found() => {
                    found.iter().for_each(|name| work.poke(name));
                    if std::mem::take(&mut work.look_again) {
                        work.look();
                    }
                }
                wake = wakes.recv(), if !stopping.is_cancelled() => match wake {
                    Ok(Wake::Releasable(name)) => work.poke(&name),
                    Ok(Wake::OwnerGone(partition)) => freed.tell(partition),
                    Ok(Wake::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        work.look();
                    }
                    Ok(Wake::Waiting(_) | Wake::Definitions) => {}
                    Err(broadcast::error::RecvError::Closed) => stopping.cancel(),
                },
                _ = second.tick() => {
                    work.look();
                    work.keep_house();
                }
            }
        }
    }
}

impl Work {
    fn new(sender: Sender, holdings: Arc<Holdings>) -> Work {
        let running = HashMap::new();
        let rounds = Arc::default();
        Work { sender, holdings, running, looking: None, look_again: false, rounds, house: None }
    }

    /// Sees to it that a destination's releasable lanes are delivered, if we own its partition.
    fn poke(&mut self, name: &DestinationName) {
        let partition = name.partition(self.sender.store.keys().partitions());
        let Some(lease) = self.holdings.of(partition) else { return };
        if planted::is("wake_and_poll_lost") && self.running.contains_key(name) {
            return;
        }
        if let Some(running) = self.running.get(name)
            && Arc::ptr_eq(&running.lease, &lease)
            && !running.task.is_finished()
            && running.poke.poke()
        {
            return;
        }
        let poke = Arc::new(Poke::default());
        let gauge = Arc::new(Gauge::default());
        poke.poke();
        let task = DestinationSender::new(
            self.sender.store.clone(),
            self.sender.catalog.clone(),
            self.sender.client.clone(),
            self.sender.json_depth_max,
            self.sender.config.release_batch_max,
            name.clone(),
            lease.clone(),
        );
        let task = lease.tasks.spawn(task.run(poke.clone(), gauge.clone()));
        self.running.insert(name.clone(), Running { lease, poke, gauge, task });
    }

    /// Looks in all owned partitions for lanes that may leave; [`Work::found`] has the answer.
    fn look(&mut self) {
        self.running.retain(|_, running| !running.lease.is_over() && !running.task.is_finished());
        let partitions = self.holdings.partitions();
        if partitions.is_empty() {
            return;
        }
        if self.looking.is_some() {
            self.look_again = true;
            return;
        }
        let store = self.sender.store.clone();
        self.looking = Some(tokio::spawn(async move {
            match store.releasable(&partitions).await {
                Ok(found) => found.iter().flatten().filter_map(|name| name.parse().ok()).collect(),
                Err(error) => {
                    tracing::debug!(%error, "cannot look for releasable lanes");
                    Vec::new()
                }
            }
        }));
    }

    /// Resolves when a look has ended, with the destinations to look at.
    async fn found(&mut self) -> Vec<DestinationName> {
        let Some(looking) = &mut self.looking else { return std::future::pending().await };
        let found = looking.await.unwrap_or_default();
        self.looking = None;
        found
    }

    /// Takes up what dead processors held and what has waited out its backoff, and notes what is
    /// being delivered. Apart from the rest: there may be much of it, and leases run out meanwhile.
    fn keep_house(&mut self) {
        let partitions = self.holdings.partitions();
        if planted::is("house_not_kept") {
            return;
        }
        if self.house.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let counts = self.running.iter().map(|(name, running)| (name.clone(), running.gauge.get()));
        let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        telemetry::delivering(counts.iter().map(|(_, count)| count).sum());
        let (store, catalog) = (self.sender.store.clone(), self.sender.catalog.clone());
        let rounds = self.rounds.clone();
        let (owned, all) = (partitions.len(), store.keys().partitions());
        let part = move |look_max| part_of(look_max, owned, all);
        self.house = Some(tokio::spawn(async move {
            if !counts.is_empty()
                && let Err(error) = store.note_delivering(&counts).await
            {
                tracing::debug!(%error, "cannot note what is being delivered");
            }
            if !partitions.is_empty()
                && let Err(error) = store.recover(&partitions).await
            {
                tracing::debug!(%error, "cannot look for what is overdue");
            }
            let mut rounds = rounds.lock().await;
            let (some, _) = catalog.some(&mut rounds.halted, &partitions, part(HALTED_LOOK_MAX));
            store.settle_all_halted(&some).await;
            if rounds.expires() {
                let some = part(EXPIRED_LOOK_MAX);
                let (some, is_over) = catalog.some(&mut rounds.expired, &partitions, some);
                store.expire_dead_letters(&some).await;
                rounds.expired_at = is_over.then(Instant::now);
            }
            let some = part(BACKLOGS_LOOK_MAX);
            rounds.backlogs.tell(&store, &catalog, &partitions, some).await;
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
