//! Cuts the power of Redis's machine repeatedly, under load. Data not synced to the disk is lost.
//! RESEQ_POWER_CUTS is the number of cuts (5).

use crate::support;

mod loss;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use loss::Lost;
use rand::{Rng, SeedableRng, rngs::StdRng};
use support::{
    checker::{Rule, check, drained},
    gate::Point,
    ledger::Ledger,
    pods::{Addresses, Pod, Settings},
    power::{Cut, PoweredRedis},
    producer::{Item, Producer},
    receiver::{Inbox, Receiver},
    transformer::Transformer,
};

const SEED: u64 = 29;
const BATCH: usize = 5;
const SLOWEST_MS: u64 = 10;

fn cuts() -> usize {
    std::env::var("RESEQ_POWER_CUTS").map_or(5, |text| text.parse().unwrap())
}

/// The body of an acknowledged message, and when it was acknowledged.
type Acknowledged = (String, Instant);

struct Load {
    inbox: Arc<Inbox>,
    ledger: Arc<Ledger>,
    settings: Settings,
    _receiver: Receiver,
    _transformer: Transformer,
}

impl Load {
    /// The receiver of `held` does not answer its requests while the gate is closed.
    async fn new(redis: &PoweredRedis, durability: &str) -> Load {
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let receiver = Receiver::http(&inbox).await;
        let transform = format!("{{ kind = \"http\", url = \"{}\" }}", transformer.url());
        let fields = |ordering: &str, transform: &str| {
            format!(
                "url = \"{}\"\nordering = \"{ordering}\"\ntransform = {transform}\n\
                 durability = \"{durability}\"\n\
                 delivery = {{ timeout_ms = 60000, backoff_ms = 20 }}",
                receiver.url(),
            )
        };
        let mut settings = Settings::new(redis.url())
            .destination("orders", &fields("destination", &transform))
            .destination("accounts", &fields("key", &transform))
            .destination("held", &fields("destination", "{ kind = \"none\" }"));
        settings.sender_lease_ms = 1500;
        settings.partitions = 4;
        let ledger = Arc::new(Ledger::default());
        Load { inbox, ledger, settings, _receiver: receiver, _transformer: transformer }
    }

    /// Sends to `destinations` until it is stopped.
    async fn produce(
        &self,
        name: &str,
        door: &Addresses,
        destinations: &[&str],
        stop: &AtomicBool,
    ) -> Vec<Acknowledged> {
        let mut producer = Producer::new(name, std::slice::from_ref(door), &self.ledger);
        let mut acknowledged = Vec::new();
        for batch in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let item = |number: usize| {
                let key = Some(format!("key-{}", number % 7));
                Item::new(destinations, key, name, number)
            };
            let items: Vec<Item> = (BATCH * batch..BATCH * (batch + 1)).map(item).collect();
            let bodies: Vec<String> = items.iter().map(|item| item.body.clone()).collect();
            producer.send_batch(items).await;
            let now = Instant::now();
            acknowledged.extend(bodies.into_iter().map(|body| (body, now)));
        }
        acknowledged
    }

    /// Runs three producers at once, one of them for `held`, while the power is cut.
    async fn storm(&self, redis: &mut PoweredRedis, pod: &Pod) -> (Vec<Acknowledged>, Vec<Cut>) {
        let stop = AtomicBool::new(false);
        let produce = async |number: usize| {
            let both = ["orders", "accounts"];
            let to: &[&str] = if number == 0 { &["held"] } else { &both };
            self.produce(&format!("producer-{number}"), &pod.addresses, to, &stop).await
        };
        let (first, second, third, cuts) =
            tokio::join!(produce(0), produce(1), produce(2), cut(redis, &self.inbox, &stop));
        ([first, second, third].concat(), cuts)
    }
}

/// Cuts the power several times, each time after more deliveries, and waits until deliveries continue.
async fn cut(redis: &mut PoweredRedis, inbox: &Inbox, stop: &AtomicBool) -> Vec<Cut> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut all = Vec::new();
    for _ in 0..cuts() {
        let more = random.random_range(40..200);
        inbox.journal.reaches(inbox.journal.messages() + more).await;
        all.push(redis.cut());
        redis.restart().await;
    }
    inbox.journal.reaches(inbox.journal.messages() + 40).await;
    stop.store(true, Ordering::SeqCst);
    all
}

const DESTINATIONS: [&str; 3] = ["orders", "accounts", "held"];
const RULES: [Rule; 3] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "accounts", by_key: true, is_transformed: true },
    Rule { destination: "held", by_key: false, is_transformed: false },
];

#[tokio::test]
async fn power_cut_takes_nothing_acknowledged_if_each_write_syncs() {
    let mut redis = PoweredRedis::start("always").await;
    let load = Load::new(&redis, "fsynced").await;
    let pod = Pod::start("pod", "ingest,processor,sender", &load.settings).await;
    let (acknowledged, cuts) = load.storm(&mut redis, &pod).await;
    drained(&pod, &load.ledger, &DESTINATIONS).await;
    let found = check(&load.ledger, &load.inbox.journal, &RULES);
    assert_eq!(found.messages, load.ledger.count());
    println!(
        "durability fsynced, appendfsync always: {} power cuts, {} messages acknowledged, none lost, \
         {} repeats",
        cuts.len(),
        acknowledged.len(),
        found.repeats
    );
}

/// The messages that repeated power cuts lose if Redis syncs once a second, while `held` delivers no messages.
async fn lost_of_storm(
    redis: &mut PoweredRedis,
    durability: &str,
) -> (Lost, Vec<Acknowledged>, Vec<Cut>) {
    let load = Load::new(redis, durability).await;
    let pod = Pod::start("pod", "ingest,processor,sender", &load.settings).await;
    // The definitions must survive the first cut.
    redis.synced().await;
    load.inbox.gate.hold_only(&["held"], Point::Arrived);
    let (acknowledged, cuts) = load.storm(redis, &pod).await;
    load.inbox.gate.let_go();
    loss::settled(&pod, &DESTINATIONS).await;
    let lost = loss::check(&load.ledger.all(), &load.inbox.journal.all(), &RULES, "held");
    assert!(lost.epochs > cuts.len(), "{} epochs after {} cuts", lost.epochs, cuts.len());
    assert!(cuts.iter().map(|cut| cut.bytes).sum::<u64>() > 0, "nothing was cut: {cuts:?}");
    (lost, acknowledged, cuts)
}

#[tokio::test]
async fn power_cut_takes_only_the_last_second() {
    let mut redis = PoweredRedis::start("everysec").await;
    let (lost, acknowledged, cuts) = lost_of_storm(&mut redis, "memory").await;
    assert!(!lost.bodies.is_empty(), "{cuts:?} took nothing");
    let ages = loss::ages(&lost, &acknowledged, &cuts);
    println!(
        "durability memory, appendfsync everysec: {} power cuts, {} messages acknowledged, {} lost \
         ({:.0} a cut); the oldest had been acknowledged {} ms before its cut",
        cuts.len(),
        acknowledged.len(),
        lost.bodies.len(),
        lost.bodies.len() as f64 / cuts.len() as f64,
        ages.iter().max().unwrap(),
    );
}

/// Redis 7.2 and later can wait for their next sync (WAITAOF); `make test-newer` runs with such a
/// version.
#[tokio::test]
async fn power_cut_takes_nothing_acknowledged_after_an_awaited_sync() {
    let mut redis = PoweredRedis::start("everysec").await;
    if !redis.waits_for_sync().await {
        println!("this server has no WAITAOF that can be believed: nothing was tested");
        return;
    }
    let (lost, acknowledged, cuts) = lost_of_storm(&mut redis, "fsynced").await;
    assert!(lost.bodies.is_empty(), "{:?}", lost.bodies);
    println!(
        "durability fsynced, appendfsync everysec: {} power cuts, {} messages acknowledged, none lost",
        cuts.len(),
        acknowledged.len(),
    );
}
