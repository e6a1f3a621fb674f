//! The sender role: owns partitions, and delivers their lanes, each in order, side by side.

mod backlogs;
pub mod deliver;
mod destination;
mod lane;
mod ownership;
mod tenure;

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
use backlogs::Backlogs;
use destination::{DestinationSender, Gauge, Poke};
use ownership::Ownership;
use tenure::Tenure;

/// The most destinations that one look for halted messages asks for. With more, a round takes several
/// seconds.
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

/// The work on one destination under one tenure of its partition.
struct Running {
    tenure: Arc<Tenure>,
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
/// The most destinations whose dead letters one look asks for.
const EXPIRED_LOOK_MAX: usize = 200;

impl Rounds {
    /// True if a look at the age of dead letters goes on, or is due again.
    fn expires(&self) -> bool {
        self.expired_at.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY)
    }
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
        let mut ownership = Ownership::new(self.store.clone(), lease);
        let mut work = Work::new(self);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut renewal = tokio::time::interval(lease / 4);
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = ownership.tenure_over() => ownership.renew().await,
                found = work.found() => {
                    found.iter().for_each(|name| work.poke(name, &ownership));
                    if std::mem::take(&mut work.look_again) {
                        work.look(&ownership);
                    }
                }
                wake = wakes.recv() => match wake {
                    Ok(Wake::Releasable(name)) => work.poke(&name, &ownership),
                    Ok(Wake::OwnerGone(partition)) => {
                        ownership.take_freed(partition).await;
                        work.look(&ownership);
                    }
                    Ok(Wake::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        work.look(&ownership);
                    }
                    Ok(Wake::Waiting(_) | Wake::Definitions) => {}
                    Err(broadcast::error::RecvError::Closed) => break,
                },
                _ = renewal.tick() => ownership.renew().await,
                () = ownership.inheritance_due() => {
                    ownership.rebalance().await;
                    work.look(&ownership);
                }
                _ = second.tick() => {
                    ownership.rebalance().await;
                    work.look(&ownership);
                    work.keep_house(&ownership);
                }
            }
            telemetry::owned(ownership.count());
        }
        // Renewal goes on while the last deliveries end, and gives back what has ended.
        ownership.leave().await;
        ownership.drain_all();
        let mut over = std::pin::pin!(tokio::time::sleep(drain));
        while ownership.count() > 0 {
            tokio::select! {
                () = &mut over => break,
                () = ownership.tenure_over() => ownership.renew().await,
                _ = renewal.tick() => ownership.renew().await,
            }
        }
        ownership.give_all_back().await;
    }
}

impl Work {
    fn new(sender: Sender) -> Work {
        let running = HashMap::new();
        let rounds = Arc::default();
        Work { sender, running, looking: None, look_again: false, rounds, house: None }
    }

    /// Sees to it that a destination's releasable lanes are delivered, if we own its partition.
    fn poke(&mut self, name: &DestinationName, ownership: &Ownership) {
        let partition = name.partition(self.sender.store.keys().partitions());
        let Some(tenure) = ownership.of(partition) else { return };
        if planted::is("wake_and_poll_lost") && self.running.contains_key(name) {
            return;
        }
        if let Some(running) = self.running.get(name)
            && Arc::ptr_eq(&running.tenure, &tenure)
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
            self.sender.config.run_max,
            name.clone(),
            tenure.clone(),
        );
        let task = tenure.tasks.spawn(task.run(poke.clone(), gauge.clone()));
        self.running.insert(name.clone(), Running { tenure, poke, gauge, task });
    }

    /// Looks in all owned partitions for lanes that may leave; [`Work::found`] has the answer.
    fn look(&mut self, ownership: &Ownership) {
        self.running.retain(|_, running| !running.tenure.is_over() && !running.task.is_finished());
        let partitions = ownership.partitions();
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
    fn keep_house(&mut self, ownership: &Ownership) {
        let partitions = ownership.partitions();
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
            let (some, _) = catalog.some(&mut rounds.halted, &partitions, HALTED_LOOK_MAX);
            store.settle_all_halted(&some).await;
            if rounds.expires() {
                let (some, is_over) =
                    catalog.some(&mut rounds.expired, &partitions, EXPIRED_LOOK_MAX);
                store.expire_dead_letters(&some).await;
                rounds.expired_at = is_over.then(Instant::now);
            }
            rounds.backlogs.tell(&store, &catalog, &partitions).await;
        }));
    }
}
