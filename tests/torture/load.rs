//! The producers and the workers.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{io::BufStream, net::TcpStream, task::JoinHandle};

use crate::{
    consumers::takes_one,
    support::{
        ledger::Promise,
        pods::{Addresses, client},
        producer::{Item, Producer},
        receiver::{read_frame, write_frame},
        transformer::transformed,
        wait::LOOK_EVERY,
    },
    world::{LEASE_MS, World},
};

/// A message that could not be sent for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause before a repeat.
const PAUSE: Duration = Duration::from_millis(50);
/// The most messages of one request, or frames of one window.
const BATCH_MAX: usize = 100;
/// The most undelivered messages, before the producers wait.
const AHEAD_MAX: usize = 5000;
/// How long to wait for the answers to frames.
const ANSWERS_MAX: Duration = Duration::from_secs(30);
/// Number of ordering keys.
pub const KEYS: usize = 50;
/// Parallel workers.
const WORKERS: usize = 2;

/// A stream of messages with a fixed rate. After a fault it catches up.
struct Stream {
    name: &'static str,
    destinations: &'static [&'static str],
    per_minute: u64,
}

const BATCHES: [Stream; 2] = [
    Stream { name: "both", destinations: &["orders", "accounts"], per_minute: 5400 },
    Stream { name: "lines", destinations: &["lines"], per_minute: 5400 },
];
const SINGLES: [Stream; 3] = [
    Stream { name: "loose", destinations: &["loose"], per_minute: 1200 },
    Stream { name: "invoices", destinations: &["invoices"], per_minute: 1200 },
    Stream { name: "parcels", destinations: &["parcels"], per_minute: 1200 },
];
/// The stream of long bodies.
const LONG: Stream = Stream {
    name: "long",
    destinations: &["orders", "accounts", "lines", "loose"],
    per_minute: 20,
};
/// The maximum length of a body, minus the bytes that the transform adds.
const LONG_BYTES: usize = (1 << 20) - 64;
const FRAMES: [Stream; 2] = [
    Stream { name: "frames-1", destinations: &["frames"], per_minute: 3000 },
    Stream { name: "frames-2", destinations: &["frames"], per_minute: 3000 },
];

impl Stream {
    /// The number of messages to send now, if `sent` were sent since `begun`.
    fn due(&self, world: &World, begun: Instant, sent: usize) -> usize {
        let by_now = begun.elapsed().as_millis() as u64 * self.per_minute / 60_000;
        let behind = |name: &&str| {
            world.ledger.count_of(name).saturating_sub(world.journal.messages_of(name))
        };
        if self.destinations.iter().any(|name| behind(name) > AHEAD_MAX) {
            return 0;
        }
        (by_now as usize).saturating_sub(sent).min(BATCH_MAX)
    }

    fn item(&self, number: usize) -> Item {
        let key = Some(format!("key-{}", number % KEYS));
        let item = Item::new(self.destinations, key, self.name, number);
        if self.name == LONG.name { item.long(self.name, number, LONG_BYTES) } else { item }
    }
}

/// Starts all producers. They end some time after `is_over`.
pub fn producers(world: &Arc<World>) -> Vec<(&'static str, JoinHandle<()>)> {
    let mut all = Vec::new();
    for stream in &BATCHES {
        all.push((stream.name, tokio::spawn(batches(world.clone(), stream))));
    }
    for stream in SINGLES.iter().chain([&LONG]) {
        all.push((stream.name, tokio::spawn(singles(world.clone(), stream))));
    }
    for (door, stream) in FRAMES.iter().enumerate() {
        all.push((stream.name, tokio::spawn(frames(world.clone(), stream, door))));
    }
    all
}

fn is_over(world: &World) -> bool {
    world.is_over.load(Ordering::SeqCst)
}

fn producer(world: &World, stream: &Stream) -> Producer {
    let mut producer = Producer::new(stream.name, &world.doors(), &world.ledger);
    (producer.patience, producer.pause) = (PATIENCE, PAUSE);
    producer
}

async fn batches(world: Arc<World>, stream: &Stream) {
    let (mut producer, begun, mut sent) = (producer(&world, stream), Instant::now(), 0);
    while !is_over(&world) {
        let count = stream.due(&world, begun, sent);
        if count > 0 {
            let items = (sent..sent + count).map(|number| stream.item(number)).collect();
            producer.send_batch(items).await;
            sent += count;
            producer.turn();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn singles(world: Arc<World>, stream: &Stream) {
    let (mut producer, begun, mut sent) = (producer(&world, stream), Instant::now(), 0);
    while !is_over(&world) {
        for _ in 0..stream.due(&world, begun, sent) {
            producer.send(stream.item(sent)).await;
            sent += 1;
            producer.turn();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends frames to one ingest pod, or to the other pod if the first one fails.
async fn frames(world: Arc<World>, stream: &'static Stream, own: usize) {
    let doors = world.doors();
    let mut sending = Sending { world, stream, sent: 0, tries: 0, begun: Instant::now() };
    let (mut failures, mut good) = (0, Instant::now());
    while !is_over(&sending.world) {
        let door = doors[(own + failures) % doors.len()].tcp(0);
        let before = sending.sent;
        sending.converse(door).await;
        sending.tries += 1;
        if sending.sent > before {
            (failures, good) = (0, Instant::now());
        } else {
            failures += 1;
            assert!(good.elapsed() < PATIENCE, "{} could not send", stream.name);
        }
        sending.world.ledger.note_again();
        tokio::time::sleep(PAUSE).await;
    }
}

struct Sending {
    world: Arc<World>,
    stream: &'static Stream,
    /// Frames that were promised.
    sent: usize,
    /// Connections so far. Frames have no idempotency keys, so each attempt sends a different
    /// message.
    tries: usize,
    begun: Instant,
}

impl Sending {
    fn body(&self, number: usize) -> String {
        let (from, at) = (self.stream.name, self.tries);
        format!("{{\"from\":\"{from}\",\"number\":{number},\"try\":{at}}}")
    }

    /// Sends over one connection until it ends or the run is over.
    async fn converse(&mut self, door: SocketAddr) {
        let Ok(stream) = TcpStream::connect(door).await else { return };
        let _ = stream.set_nodelay(true);
        let mut stream = BufStream::new(stream);
        while !is_over(&self.world) {
            let count = self.stream.due(&self.world, self.begun, self.sent);
            let bodies: Vec<String> =
                (self.sent..self.sent + count).map(|number| self.body(number)).collect();
            let exchange = exchange(&mut stream, &bodies);
            let answers = tokio::time::timeout(ANSWERS_MAX, exchange).await.unwrap_or_default();
            if !self.settle(bodies, answers) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Records the promised frames, and the frames that may have been stored. True if all were promised.
    fn settle(&mut self, bodies: Vec<String>, answers: Vec<String>) -> bool {
        let mut is_well = true;
        let mut answers = answers.into_iter();
        for body in bodies {
            match answers.next() {
                Some(answer) if answer.starts_with("OK ") => {
                    assert!(is_well, "{answer} after an earlier frame was refused");
                    self.sent += 1;
                    self.promised(body, answer["OK ".len()..].parse().unwrap());
                }
                Some(answer) if !answer.starts_with("ERR not_confirmed") => {
                    assert!(answer.starts_with("ERR "), "{answer}");
                    is_well = false;
                }
                _ => {
                    self.world.ledger.doubt(&body);
                    is_well = false;
                }
            }
        }
        is_well
    }

    fn promised(&self, body: String, sequence: u64) {
        self.world.ledger.promise(Promise {
            destination: self.stream.destinations[0].to_owned(),
            epoch: None,
            sequence,
            id: None,
            key: None,
            body,
            producer: self.stream.name.to_owned(),
        });
    }
}

/// Sends these frames. Returns the answers that arrived.
async fn exchange(stream: &mut BufStream<TcpStream>, bodies: &[String]) -> Vec<String> {
    let mut answers = Vec::new();
    for body in bodies {
        if write_frame(stream, body, false).await.is_err() {
            break;
        }
    }
    while answers.len() < bodies.len() {
        let Ok(Some(answer)) = read_frame(stream, false).await else { break };
        answers.push(answer);
    }
    answers
}

/// Starts workers. They run until aborted.
pub fn workers(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    (0..WORKERS).map(|number| tokio::spawn(work(world.clone(), number))).collect()
}

async fn work(world: Arc<World>, number: usize) {
    let client = client();
    for round in number.. {
        let pod = &world.addresses[round % world.addresses.len()];
        let worked = work_once(&world, &client, pod).await;
        // Waits a little before it asks an unreachable pod again.
        if worked.is_none() {
            tokio::time::sleep(LOOK_EVERY * 10).await;
        }
    }
}

async fn work_once(world: &World, client: &reqwest::Client, pod: &Addresses) -> Option<()> {
    let post = |path: &str, body: String| {
        let request = client.post(pod.url(path)).timeout(Duration::from_secs(5));
        request.header("content-type", "application/json").body(body).send()
    };
    let ask = format!(
        "{{\"destinations\":[\"loose\"],\"max\":50,\"wait_ms\":500,\"lease_ms\":{LEASE_MS}}}"
    );
    let text = post("/v1/leases", ask).await.ok()?.text().await.ok()?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    let leases = answer["leases"].as_array()?;
    if leases.is_empty() {
        return Some(());
    }
    if takes_one(&world.forgetting) {
        return Some(());
    }
    let item = |lease: &Value| {
        let body = transformed(&lease["body"].to_string());
        format!("{{\"token\":{},\"body\":{body}}}", lease["token"])
    };
    let items: Vec<String> = leases.iter().map(item).collect();
    let done = format!("{{\"items\":[{}]}}", items.join(","));
    post("/v1/leases/complete", done).await.ok()?;
    Some(())
}
