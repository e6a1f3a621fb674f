//! Two pods of each role on one Redis, with a stream of messages through them. Some transforms and
//! deliveries fail, so that pods reach every point.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio_util::task::AbortOnDropHandle;

use crate::support::{
    checker::{Rule, check, drained},
    control::Control,
    http::{self, Answer},
    ledger::Ledger,
    pods::{Pod, Settings},
    producer::{Item, Producer},
    proxy::Proxy,
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    transformer::transformed,
    wait::eventually,
};

const DESTINATIONS: [&str; 2] = ["orders", "accounts"];
const RULES: [Rule; 2] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "accounts", by_key: true, is_transformed: true },
];
/// The most promised deliveries that have not arrived yet, before the producers wait.
const AHEAD_MAX: usize = 24;
/// The fewest messages of each producer in a case, each to both destinations.
const MESSAGES_MIN: usize = 5;
/// The transform fails at the first attempt for one in this many messages.
const FAILS_EACH: u64 = 4;
/// The probability that a delivery fails.
const REFUSALS: f64 = 0.2;

pub struct InWorld {
    pub pod: Pod,
    pub role: &'static str,
    /// The pod's proxy to Redis.
    pub way: Proxy,
    /// True if the pod was asked to end.
    pub is_ending: bool,
}

pub struct World {
    pub control: Control,
    pub pods: Vec<InWorld>,
    /// The proxy of all pods to the receiver.
    pub to_receiver: Proxy,
    pub ledger: Arc<Ledger>,
    pub inbox: Arc<Inbox>,
    producers: BTreeMap<&'static str, (Producer, usize)>,
    _receiver: Receiver,
    _transformer: AbortOnDropHandle<()>,
    _redis: TestRedis,
}

/// A stream of messages, which runs until it is stopped.
pub struct Stream<'w> {
    ledger: &'w Ledger,
    inbox: &'w Inbox,
    enough: AtomicBool,
    started: usize,
    pub ended: AtomicUsize,
}

impl World {
    pub async fn start(seed: u64) -> World {
        let redis = TestRedis::start().await;
        let control = Control::start();
        let inbox = Arc::new(Inbox::default());
        inbox.fail(seed, REFUSALS);
        let receiver = Receiver::http(&inbox).await;
        let to_receiver = Proxy::http(receiver.address.port()).await;
        let (transforms, transformer) = transformer().await;
        let fields = |ordering: &str| {
            format!(
                "url = \"{}\"\nordering = \"{ordering}\"\n\
                 transform = {{ kind = \"http\", url = \"http://{transforms}/\", backoff_ms = 20, \
                 backoff_max_ms = 50, attempts_max = 0, stalls_max = 0 }}\n\
                 delivery = {{ timeout_ms = 60000, backoff_ms = 20, backoff_max_ms = 50 }}",
                to_receiver.url,
            )
        };
        let (orders, accounts) = (fields("destination"), fields("key"));
        let mut world = World {
            control,
            pods: Vec::new(),
            to_receiver,
            ledger: Arc::default(),
            inbox,
            producers: BTreeMap::new(),
            _receiver: receiver,
            _transformer: transformer,
            _redis: redis,
        };
        for role in ["ingest", "processor", "sender"] {
            for number in 1..=2 {
                let way = Proxy::unix(world._redis.url());
                let mut settings = Settings::new(&way.url)
                    .destination("orders", &orders)
                    .destination("accounts", &accounts);
                settings.partitions = 1;
                settings.processor_lease_ms = 400;
                settings.sender_lease_ms = 800;
                settings.environment.push(world.control.environment());
                let pod = Pod::start(&format!("{role}-{number}"), role, &settings).await;
                world.pods.push(InWorld { pod, role, way, is_ending: false });
            }
        }
        let doors: Vec<_> = world.pods[..2].iter().map(|one| one.pod.addresses.clone()).collect();
        let turned: Vec<_> = doors.iter().rev().cloned().collect();
        for (name, doors) in [("one", doors), ("two", turned)] {
            let producer = Producer::new(name, &doors, &world.ledger);
            world.producers.insert(name, (producer, 0));
        }
        world
    }

    /// The pod with this process id.
    pub fn at(&self, process: u32) -> Option<usize> {
        self.pods.iter().position(|one| one.pod.id() == process)
    }

    /// The process ids of a role's pods, except this one.
    pub fn processes(&self, role: &str, but: u32) -> Vec<u32> {
        let all = self.pods.iter().filter(|one| one.role == role).map(|one| one.pod.id());
        all.filter(|id| *id != but).collect()
    }

    /// The pod that last renewed its lease of the only partition.
    pub async fn owner(&self) -> usize {
        let since = self.control.count();
        let visit = self
            .control
            .sees("a sender renews", since, 1, |visit| visit.point == "owner.renewing")
            .await;
        self.at(visit.process).expect("pods of this world alone speak to its control")
    }

    /// Runs `act` while messages stream; then stops the stream.
    pub async fn streaming(&mut self, act: impl AsyncFnOnce(&mut World, &Stream<'_>)) {
        let (ledger, inbox) = (self.ledger.clone(), self.inbox.clone());
        let mut producers = std::mem::take(&mut self.producers);
        let stream = Stream {
            ledger: &ledger,
            inbox: &inbox,
            enough: AtomicBool::new(false),
            started: ledger.count(),
            ended: AtomicUsize::new(0),
        };
        let sending = producers.iter_mut().map(|(name, (producer, at))| {
            let stream = &stream;
            async move { stream.send(name, producer, at).await }
        });
        let acting = async {
            act(self, &stream).await;
            stream.enough.store(true, Ordering::SeqCst);
        };
        tokio::join!(futures::future::join_all(sending), acting);
        self.producers = producers;
    }

    /// Restarts every pod that does not run.
    pub async fn runs_again(&mut self) {
        for one in &mut self.pods {
            if std::mem::take(&mut one.is_ending) {
                one.pod.ended().await;
            }
            one.pod.runs_again().await;
        }
    }

    /// Checks that all promised messages have arrived, in order, and that Redis holds no messages.
    pub async fn settles(&self) {
        drained(&self.pods[0].pod, &self.ledger, &DESTINATIONS).await;
        let found = check(&self.ledger, &self.inbox.journal, &RULES);
        assert!(found.messages >= self.ledger.count());
        for one in self.pods.iter().filter(|one| one.role == "processor") {
            eventually(&format!("{} has nothing in its slots", one.pod.name), async || {
                match one.pod.metric("reseq_slots_taken{of=\"calling\"}").await {
                    0.0 => Ok(()),
                    taken => Err(format!("{taken} slots are taken")),
                }
            })
            .await;
        }
    }
}

impl Stream<'_> {
    async fn send(&self, name: &'static str, producer: &mut Producer, at: &mut usize) {
        let mut sent = 0;
        // Each producer prefers its own pod: while one pod is held, the other producer sends.
        producer.returns();
        while sent < MESSAGES_MIN || !self.enough.load(Ordering::SeqCst) {
            if self.promised() > self.arrived() + AHEAD_MAX {
                tokio::time::sleep(crate::support::wait::LOOK_EVERY).await;
                continue;
            }
            let key = Some(format!("key-{}", *at % 3));
            producer.send(Item::new(&DESTINATIONS, key, name, *at)).await;
            (*at, sent) = (*at + 1, sent + 1);
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn promised(&self) -> usize {
        self.ledger.count()
    }

    fn arrived(&self) -> usize {
        self.inbox.journal.messages()
    }

    /// Waits until all messages promised so far have arrived: the other pods have then taken over
    /// the work of a stopped pod.
    pub async fn catches_up(&self) {
        let promised: Vec<_> = self.ledger.all().split_off(self.started);
        eventually("what was promised arrives", async || {
            let all = self.inbox.journal.all();
            let has = |body: &str, name: &str| {
                all.iter().any(|one| one.destination == name && one.body == transformed(body))
            };
            let missing = promised.iter().filter(|p| !has(&p.body, &p.destination)).count();
            if missing == 0 { Ok(()) } else { Err(format!("{missing} are missing")) }
        })
        .await;
    }
}

/// A transform service that fails at the first attempt for some messages.
async fn transformer() -> (SocketAddr, AbortOnDropHandle<()>) {
    http::serve(|request| async move {
        let fails = request.number("reseq-sequence") % FAILS_EACH == 0;
        if fails && request.number("reseq-attempt") == 1 {
            return Some(Answer::status(503));
        }
        Some(Answer { body: transformed(&request.body), ..Answer::status(200) })
    })
    .await
}
