//! Tests the main journey while processes die, freeze, or are asked to stop: no message is lost,
//! and each lane stays in order. Faults strike after a number of deliveries, never by the clock.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use support::{
    checker::{Found, Rule, check, different, drained, forgotten, owners},
    gate::Point,
    ledger::Ledger,
    pods::{Pod, Settings},
    producer::{FrameProducer, Item, Producer},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    transformer::Transformer,
    wait::{eventually, within},
};

use crate::support;

/// The number of messages, each to two destinations.
const MESSAGES: usize = 1000;
/// All deliveries over HTTP.
const DELIVERIES: usize = 2 * MESSAGES;
/// Messages of one batch.
const BATCH: usize = 10;
/// The most promised deliveries that have not arrived yet, before the producer waits. The stream
/// thus lasts for the whole journey.
const AHEAD_MAX: usize = 200;
const SLOWEST_MS: u64 = 20;
const SEED: u64 = 11;

const RULES: [Rule; 2] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "accounts", by_key: true, is_transformed: true },
];

struct Journey {
    redis: TestRedis,
    inbox: Arc<Inbox>,
    ledger: Arc<Ledger>,
    transformer: Transformer,
    settings: Settings,
    produced: AtomicUsize,
    allowed: AtomicUsize,
    _receiver: Receiver,
}

impl Journey {
    async fn new() -> Journey {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let receiver = Receiver::http(&inbox).await;
        let fields = |ordering: &str| {
            format!(
                "url = \"{}\"\nordering = \"{ordering}\"\n\
                 transform = {{ kind = \"http\", url = \"{}\", backoff_ms = 20 }}\n\
                 delivery = {{ timeout_ms = 60000, backoff_ms = 20 }}",
                receiver.url(),
                transformer.url()
            )
        };
        let settings = Settings::new(redis.url())
            .destination("orders", &fields("destination"))
            .destination("accounts", &format!("shards = 4\n{}", fields("key")));
        let ledger = Arc::new(Ledger::default());
        let (produced, allowed) = (AtomicUsize::new(0), AtomicUsize::new(DELIVERIES));
        Journey {
            redis,
            inbox,
            ledger,
            transformer,
            settings,
            produced,
            allowed,
            _receiver: receiver,
        }
    }

    /// A journey whose sender leases expire soon after a sender has died.
    async fn with_mortal_senders() -> Journey {
        let mut journey = Journey::new().await;
        journey.settings.sender_lease_ms = 1500;
        journey
    }

    /// Starts pods of one role, named after it: `ingest-1`, `ingest-2`.
    async fn pods(&self, role: &str, count: usize) -> Vec<Pod> {
        let mut pods = Vec::new();
        for number in 1..=count {
            pods.push(Pod::start(&format!("{role}-{number}"), role, &self.settings).await);
        }
        pods
    }

    /// Sends a steady stream, as fast as messages arrive at the receivers.
    async fn stream(&self, ingests: &[support::pods::Addresses]) {
        let mut producer = Producer::new("stream", ingests, &self.ledger);
        for batch in 0..MESSAGES / BATCH {
            let at = 2 * BATCH * batch;
            eventually("the receivers keep up", async || {
                let (arrived, allowed) = (self.arrived(), self.allowed.load(Ordering::SeqCst));
                let may_go_on = arrived + AHEAD_MAX >= at && at < allowed;
                let seen = || format!("{arrived} of {at} have arrived, {allowed} are allowed");
                may_go_on.then_some(()).ok_or_else(seen)
            })
            .await;
            let numbers = BATCH * batch..BATCH * (batch + 1);
            let item = |number| {
                let key = Some(format!("key-{}", number % 20));
                Item::new(&["orders", "accounts"], key, "stream", number)
            };
            producer.send_batch(numbers.map(item).collect()).await;
            self.produced.store(at + 2 * BATCH, Ordering::SeqCst);
        }
    }

    /// Stops the stream after this many deliveries, until more are allowed.
    fn allow(&self, deliveries: usize) {
        self.allowed.store(deliveries, Ordering::SeqCst);
    }

    /// The number of different messages delivered so far.
    fn arrived(&self) -> usize {
        self.inbox.journal.messages()
    }

    /// Waits until this many messages have been delivered. The journey is then running, and far from its end.
    async fn reaches(&self, count: usize) {
        self.inbox.journal.reaches(count).await;
        let arrived = self.arrived();
        assert!(arrived < DELIVERIES * 3 / 4, "{arrived}: too late for the fault");
        assert!(self.produced.load(Ordering::SeqCst) < DELIVERIES, "the stream has ended");
    }

    async fn end(&self, pod: &Pod) -> Found {
        drained(pod, &self.ledger, &["orders", "accounts"]).await;
        forgotten(&mut self.redis.connection().await).await;
        assert_eq!(self.ledger.count(), DELIVERIES);
        let found = check(&self.ledger, &self.inbox.journal, &RULES);
        assert_eq!(found.messages, DELIVERIES);
        assert!(self.transformer.work.overtaken() > 50, "nothing had to be put in order");
        found
    }
}

fn addresses(pods: &[Pod]) -> Vec<support::pods::Addresses> {
    pods.iter().map(|pod| pod.addresses.clone()).collect()
}

/// The pod that owns the only partition, if any does.
async fn owner_of_all(senders: &[&Pod]) -> Option<usize> {
    for (index, pod) in senders.iter().enumerate() {
        if pod.metric("reseq_sender_partitions_owned").await > 0.0 {
            return Some(index);
        }
    }
    None
}

async fn the_owner(senders: &[&Pod]) -> usize {
    eventually("one of the senders owns the partition", async || {
        owner_of_all(senders).await.ok_or_else(|| "none does".to_owned())
    })
    .await
}

#[tokio::test]
async fn producer_of_a_killed_ingest_pod_goes_on_with_another() {
    let journey = Journey::new().await;
    let mut ingests = journey.pods("ingest", 2).await;
    let _processors = journey.pods("processor", 2).await;
    let _senders = journey.pods("sender", 2).await;
    let doors = addresses(&ingests);
    let faults = async {
        for (victim, at) in [(0, 300), (1, 900)] {
            journey.reaches(at).await;
            let before = journey.ledger.again();
            ingests[victim].kill();
            // The producer was using this pod.
            eventually("the producer notices", async || match journey.ledger.again() {
                again if again > before => Ok(()),
                again => Err(format!("{again} requests were made again")),
            })
            .await;
            ingests[victim].restart().await;
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    assert_eq!(found.repeats, 0);
}

/// A processor that waits for answers. The others may have taken all that there is, so none can be named before.
async fn one_that_calls(processors: &mut [Pod]) -> &mut Pod {
    let found = eventually("a processor has taken some", async || {
        for (index, pod) in processors.iter().enumerate() {
            if pod.metric("reseq_slots_taken{of=\"calling\"}").await > 0.0 {
                return Ok(index);
            }
        }
        Err("none".to_owned())
    });
    &mut processors[found.await]
}

#[tokio::test]
async fn messages_of_a_killed_processor_are_taken_up_by_another() {
    let journey = Journey::new().await;
    let ingests = journey.pods("ingest", 1).await;
    let mut processors = journey.pods("processor", 3).await;
    let _senders = journey.pods("sender", 1).await;
    let doors = addresses(&ingests);
    let mut taken_with_it = 0;
    let faults = async {
        for at in [300, 700, 1100] {
            journey.reaches(at).await;
            // The transform holds its requests, so this processor certainly has leased messages.
            journey.transformer.work.gate.hold(Point::Accepted);
            let victim = one_that_calls(&mut processors).await;
            taken_with_it += 1;
            victim.kill();
            journey.transformer.work.gate.let_go();
            victim.restart().await;
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    // The transform got its open requests again. The receivers got no repeats.
    assert!(journey.transformer.work.taken_up_again() >= taken_with_it);
    assert_eq!(found.repeats, 0);
}

#[tokio::test]
async fn killed_sole_sender_repeats_only_what_it_had_not_noted() {
    let journey = Journey::with_mortal_senders().await;
    let ingests = journey.pods("ingest", 1).await;
    let _processors = journey.pods("processor", 2).await;
    let mut senders = journey.pods("sender", 1).await;
    let doors = addresses(&ingests);
    let faults = async {
        for at in [300, 700, 1100] {
            journey.reaches(at).await;
            // The receiver accepts without an answer. The sender cannot know the outcome, and must send again.
            journey.inbox.gate.hold(Point::Accepted);
            journey.inbox.gate.holds(1).await;
            senders[0].kill();
            journey.inbox.gate.let_go();
            senders[0].restart().await;
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    assert!(found.repeats >= 3, "{found:?}");
    assert!(found.repeats <= DELIVERIES / 4, "{found:?}");
}

#[tokio::test]
async fn two_senders_take_over_from_each_other_when_they_are_killed() {
    let mut journey = Journey::with_mortal_senders().await;
    // One partition has one owner, so every delivery depends on it.
    journey.settings.partitions = 1;
    let ingests = journey.pods("ingest", 1).await;
    let _processors = journey.pods("processor", 2).await;
    let mut senders = journey.pods("sender", 2).await;
    let doors = addresses(&ingests);
    let mut victims = Vec::new();
    let faults = async {
        for at in [400, 1000] {
            journey.reaches(at).await;
            let victim = the_owner(&senders.iter().collect::<Vec<_>>()).await;
            journey.inbox.gate.hold(Point::Accepted);
            journey.inbox.gate.holds(1).await;
            senders[victim].kill();
            journey.inbox.gate.let_go();
            let heir = 1 - victim;
            assert_eq!(the_owner(&[&senders[heir]]).await, 0);
            senders[victim].restart().await;
            victims.push(victim);
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    assert_eq!(different(victims.iter()), 2, "both were killed: {victims:?}");
    assert!(found.repeats >= 2, "{found:?}");
}

#[tokio::test]
async fn request_of_sender_frozen_past_its_lease_is_only_a_repeat() {
    let mut journey = Journey::with_mortal_senders().await;
    journey.settings.partitions = 1;
    let ingests = journey.pods("ingest", 1).await;
    let _processors = journey.pods("processor", 2).await;
    let senders = journey.pods("sender", 2).await;
    let doors = addresses(&ingests);
    let gate = &journey.inbox.gate;
    let faults = async {
        journey.reaches(300).await;
        let frozen = the_owner(&senders.iter().collect::<Vec<_>>()).await;
        // Requests of the owner stay in flight to the receiver for a long time.
        gate.hold(Point::Arrived);
        gate.holds(1).await;
        senders[frozen].freeze();
        gate.pass();
        let late = gate.held();
        let before = journey.arrived();
        // The other sender delivers the same messages, and later ones.
        journey.inbox.journal.reaches(before + AHEAD_MAX / 2).await;
        gate.let_go();
        eventually("the late requests arrive", async || match gate.held() {
            0 => Ok(()),
            held => Err(format!("{held} are on their way")),
        })
        .await;
        senders[frozen].thaw();
        late
    };
    let (_, late) = tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    assert!(found.repeats >= late, "{late} were late: {found:?}");
}

#[tokio::test]
async fn redis_killed_and_restarted_loses_and_misorders_nothing() {
    let mut journey = Journey::with_mortal_senders().await;
    let ingests = journey.pods("ingest", 2).await;
    let _processors = journey.pods("processor", 2).await;
    let _senders = journey.pods("sender", 2).await;
    let doors = addresses(&ingests);
    let (inbox, ledger) = (journey.inbox.clone(), journey.ledger.clone());
    let replacement = TestRedis::start().await;
    let redis = std::mem::replace(&mut journey.redis, replacement);
    let faults = async {
        for at in [400, 1000] {
            inbox.journal.reaches(at).await;
            assert!(inbox.journal.messages() < DELIVERIES * 3 / 4);
            redis.written().await;
            redis.kill();
            // At least one delivery has arrived that cannot be settled before Redis is back.
            let arrived = inbox.journal.messages();
            redis.restart().await;
            inbox.journal.reaches(arrived + 1).await;
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    journey.redis = redis;
    let found = journey.end(&ingests[0]).await;
    // Redis ran three times, so there are at least three epochs.
    let promises = ledger.all();
    assert!(different(promises.iter().map(|promise| promise.epoch)) >= 3);
    assert!(found.repeats < DELIVERIES / 4, "{found:?}");
}

#[tokio::test]
async fn stopping_ingest_pod_answers_what_it_took_and_takes_no_more() {
    let mut journey = Journey::new().await;
    let lines = Receiver::lines(&journey.inbox, "lines").await;
    journey.settings =
        journey.settings.destination("lines", &format!("url = \"{}\"", lines.tcp_url()));
    journey.settings.tcp = vec![("lines", "lines")];
    let mut ingests = journey.pods("ingest", 2).await;
    let _processors = journey.pods("processor", 2).await;
    let _senders = journey.pods("sender", 1).await;
    let doors = addresses(&ingests);
    const FRAMES: usize = 20_000;
    let frames = async {
        let mut connections = 0;
        let producer = FrameProducer {
            name: "frames",
            destination: "lines",
            with_length: false,
            window: 256,
            ledger: journey.ledger.clone(),
        };
        let next = || {
            connections += 1;
            doors[(connections - 1) % 2].tcp(0)
        };
        producer.send(FRAMES, next).await;
        connections
    };
    let faults = async {
        journey.reaches(250).await;
        let promised = journey.ledger.count_of("lines");
        assert!((1..FRAMES).contains(&promised), "{promised}");
        ingests[0].drains().await;
        ingests[0].restart().await;
    };
    let (_, connections, ()) = tokio::join!(journey.stream(&doors), frames, faults);
    assert!(connections > 1, "the frames were interrupted");
    assert!(journey.ledger.again() > 0);
    drained(&ingests[1], &journey.ledger, &["orders", "accounts", "lines"]).await;
    forgotten(&mut journey.redis.connection().await).await;
    let lines = Rule { destination: "lines", by_key: false, is_transformed: false };
    let found = check(&journey.ledger, &journey.inbox.journal, &[RULES[0], RULES[1], lines]);
    assert_eq!(found.messages, DELIVERIES + FRAMES);
    // Reseq had not accepted the repeated messages, so none is stored twice.
    assert_eq!((found.repeats, journey.ledger.duplicates()), (0, 0));
    assert_eq!(journey.inbox.journal.messages_of("lines"), FRAMES);
}

#[tokio::test]
async fn a_processor_asked_to_stop_finishes_what_it_has_taken() {
    let journey = Journey::new().await;
    let ingests = journey.pods("ingest", 1).await;
    let mut processors = journey.pods("processor", 2).await;
    let _senders = journey.pods("sender", 1).await;
    let doors = addresses(&ingests);
    let faults = async {
        for at in [400, 1000] {
            journey.reaches(at).await;
            journey.transformer.work.gate.hold(Point::Accepted);
            let victim = one_that_calls(&mut processors).await;
            victim.terminate();
            journey.transformer.work.gate.let_go();
            victim.drains().await;
            victim.restart().await;
        }
    };
    tokio::join!(journey.stream(&doors), faults);
    let found = journey.end(&ingests[0]).await;
    assert_eq!((found.repeats, journey.transformer.work.repeats()), (0, 0));
}

#[tokio::test]
async fn stopping_sender_returns_its_partitions_without_repeats() {
    let mut journey = Journey::new().await;
    // No test waits until such a lease expires: partitions change owners because they are resigned.
    journey.settings.sender_lease_ms = 600_000;
    let ingests = journey.pods("ingest", 1).await;
    let _processors = journey.pods("processor", 2).await;
    let mut senders = journey.pods("sender", 2).await;
    let doors = addresses(&ingests);
    journey.allow(0);
    let faults = async {
        let mut redis = journey.redis.connection().await;
        for (victim, at) in [(0, 400), (1, 1000)] {
            // Stops the stream until both senders own partitions.
            journey.allow(at - AHEAD_MAX);
            eventually("the senders share the partitions", async || {
                let (one, two) = (owned(&senders[0]).await, owned(&senders[1]).await);
                if (one, two) == (32, 32) { Ok(()) } else { Err(format!("{one} and {two}")) }
            })
            .await;
            journey.allow(at + AHEAD_MAX);
            journey.reaches(at).await;
            let before = owners(&mut redis).await;
            assert_eq!(before.len(), 64);
            senders[victim].drains().await;
            // The other sender kept its partitions. The partitions of this sender are free, or already taken again.
            let after = owners(&mut redis).await;
            let kept = before.iter().filter(|(key, token)| after.get(*key) == Some(token));
            assert_eq!(kept.count(), 32);
            let heir = 1 - victim;
            eventually("the other has taken all", async || match owned(&senders[heir]).await {
                64 => Ok(()),
                count => Err(format!("{count}")),
            })
            .await;
            senders[victim].restart().await;
        }
        journey.allow(DELIVERIES);
    };
    within("the journey", async { tokio::join!(journey.stream(&doors), faults) }).await;
    let found = journey.end(&ingests[0]).await;
    assert_eq!(found.repeats, 0);
}

#[tokio::test]
async fn partition_changes_hands_despite_an_unresponsive_receiver() {
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let fields = format!("url = \"{}\"\ndelivery = {{ timeout_ms = 600000 }}", receiver.url());
    // Each of the two partitions has one working and one stuck destination.
    let (free, stuck) = (["free-1", "free-2"], ["stuck-1", "stuck-2"]);
    let mut settings = Settings { partitions: 2, ..Settings::new(redis.url()) };
    let mut rules = Vec::new();
    for destination in free.into_iter().chain(stuck) {
        settings = settings.destination(destination, &fields);
        rules.push(Rule { destination, by_key: false, is_transformed: false });
    }
    let ingest = Pod::start("ingest", "ingest", &settings).await;
    let first = Pod::start("sender-1", "sender", &settings).await;
    let ledger = Arc::new(Ledger::default());
    let mut producer = Producer::new("producer", std::slice::from_ref(&ingest.addresses), &ledger);
    inbox.gate.hold_only(&stuck, Point::Arrived);
    producer.send(Item::new(&stuck, None, "producer", 0)).await;
    inbox.gate.holds(2).await;

    let second = Pod::start("sender-2", "sender", &settings).await;
    eventually("the second sender has its share", async || {
        let (one, two) = (owned(&first).await, owned(&second).await);
        if (one, two) == (1, 1) { Ok(()) } else { Err(format!("{one} and {two}")) }
    })
    .await;
    let numbers = 0..100;
    producer.send_batch(numbers.map(|n| Item::new(&free, None, "producer", n)).collect()).await;
    drained(&ingest, &ledger, &free).await;
    assert_eq!((inbox.journal.messages(), inbox.journal.messages_of("free-1")), (200, 100));
    // The first sender broke these deliveries off, and the second one tried again.
    inbox.gate.holds(3).await;
    inbox.gate.let_go();
    drained(&ingest, &ledger, &stuck).await;
    let found = check(&ledger, &inbox.journal, &rules);
    assert_eq!((found.messages, found.repeats), (202, 1));
}

async fn owned(sender: &Pod) -> u64 {
    sender.metric("reseq_sender_partitions_owned").await as u64
}
