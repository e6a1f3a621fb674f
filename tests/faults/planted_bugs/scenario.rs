//! The common parts of the scenarios: a small deployment, with or without a planted bug, and the verdict.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::Store;
use tempfile::TempDir;
use tokio::{io::BufStream, net::TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::variable_of;

use crate::support::{
    checker::stats,
    control::{Caught, Control},
    http::{self, Answer},
    journal::{Delivery, Headers, Journal},
    ledger::Ledger,
    pods::{Pod, Settings},
    producer::{Item, Producer},
    proxy::Proxy,
    receiver::{read_frame, write_frame},
    redis::TestRedis,
    transformer::transformed,
    wait::{LOOK_EVERY, PATIENCE, eventually},
};

/// With a planted bug, an event that has not happened within this time counts as never.
pub(super) const SOON: Duration = Duration::from_secs(6);
/// A scenario watches this long for an event that must not happen.
const A_WHILE: Duration = Duration::from_millis(700);

/// A broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Promised, no longer stored, and never delivered.
    Lost,
    /// Delivered or stamped in another order than sent.
    Reordered,
    /// One message has two positions.
    Doubled,
    /// Accepted although an earlier message of the producer was refused.
    Overtaken,
    /// No progress.
    Stuck,
    /// A sender sends after another has become the owner.
    TwoOwners,
    /// Sent again although no attempt had failed.
    Repeated,
    /// Processed twice although no processor had died.
    ProcessedTwice,
    /// A failed attempt is not counted, and its backoff is forgotten.
    AttemptForgotten,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Anomaly::Lost => "lost",
            Anomaly::Reordered => "reordered",
            Anomaly::Doubled => "doubled",
            Anomaly::Overtaken => "overtaken",
            Anomaly::Stuck => "stuck",
            Anomaly::TwoOwners => "two owners",
            Anomaly::Repeated => "repeated",
            Anomaly::ProcessedTwice => "processed twice",
            Anomaly::AttemptForgotten => "attempt forgotten",
        };
        f.pad(name)
    }
}

/// The result of a scenario: correct, or an anomaly.
pub type Verdict = Result<(), Anomaly>;

/// How the receiver and the transform behave.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// The receiver refuses the first attempt at every sequence divisible by this; 0: none.
    pub refuses_each: u64,
    /// The receiver refuses this many requests, and then works.
    pub refuses_first: usize,
    /// The time that the receiver takes for each request.
    pub takes_ms: u64,
    /// The transform fails at the first attempt for every sequence divisible by this; 0: there is
    /// no transform.
    pub fails_each: u64,
    /// The time that the transform takes for the third message, at its first attempt.
    pub third_takes_ms: u64,
    /// Deliveries are batches. The receiver accepts one message of each. Its first answer cannot
    /// be parsed; later answers can.
    pub is_unclear: bool,
}

/// One deployment with one destination, `orders`.
pub struct Scenario {
    pub redis: TestRedis,
    pub control: Control,
    pub pods: Vec<Pod>,
    pub ways: Vec<Proxy>,
    pub journal: Arc<Journal>,
    /// The requests that the transform has received.
    pub transforms: Arc<Journal>,
    pub ledger: Arc<Ledger>,
    pub sent: usize,
    producer: Producer,
    patience: Duration,
    is_transformed: bool,
    _servers: Vec<AbortOnDropHandle<()>>,
    /// The scripts with a bug, read again when a pod is started again.
    _scripts: TempDir,
}

impl Scenario {
    /// Starts pods of these roles, all with this bug. `change` adapts their settings.
    pub async fn start(
        bug: Option<&str>,
        roles: &[&str],
        manners: Manners,
        delivery: &str,
        change: impl Fn(&mut Settings),
    ) -> Scenario {
        let (redis, control) = (TestRedis::start_with_clock().await, Control::start());
        let (journal, transforms) = (Arc::new(Journal::default()), Arc::new(Journal::default()));
        let (receiver, first) = receiver(&journal, manners).await;
        let (transformer, second) = transformer(&transforms, manners).await;
        let is_transformed = manners.fails_each > 0;
        let transform = if is_transformed {
            format!("transform = {{ kind = \"http\", url = \"{transformer}\", backoff_ms = 20 }}")
        } else {
            "transform = { kind = \"none\" }".to_owned()
        };
        let fields = format!("url = \"{receiver}\"\n{transform}\n{delivery}");
        let scripts = tempfile::tempdir().unwrap();
        let (mut pods, mut ways) = (Vec::new(), Vec::new());
        for (number, role) in roles.iter().enumerate() {
            let way = Proxy::unix(redis.url());
            let mut settings = Settings::new(&way.url).destination("orders", &fields);
            settings.partitions = 1;
            settings.tcp = vec![("orders", "lines")];
            settings.environment.push(control.environment());
            settings.environment.extend(bug.map(|bug| variable_of(bug, scripts.path())));
            change(&mut settings);
            pods.push(Pod::start(&format!("pod-{number}"), role, &settings).await);
            ways.push(way);
        }
        let ledger = Arc::new(Ledger::default());
        let producer = Producer::new("producer", &[pods[0].addresses.clone()], &ledger);
        let patience = if bug.is_some() { SOON } else { PATIENCE };
        Scenario {
            redis,
            control,
            pods,
            ways,
            journal,
            transforms,
            ledger,
            sent: 0,
            producer,
            patience,
            is_transformed,
            _servers: vec![first, second],
            _scripts: scripts,
        }
    }

    /// Sends this many messages in one batch, until they are promised.
    pub async fn send(&mut self, count: usize) -> Verdict {
        let numbers = self.sent..self.sent + count;
        self.sent += count;
        let items = numbers.map(|n| Item::new(&["orders"], None, "producer", n)).collect();
        let sending = self.producer.send_batch(items);
        tokio::time::timeout(self.patience, sending).await.map_err(|_| Anomaly::Stuck)
    }

    /// Waits until a condition holds. Returns [`Anomaly::Stuck`] if it never does.
    pub async fn until(&self, mut is_so: impl AsyncFnMut(&Scenario) -> bool) -> Verdict {
        let deadline = Instant::now() + self.patience;
        while !is_so(self).await {
            if Instant::now() > deadline {
                return Err(Anomaly::Stuck);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// True if an event happens that must not.
    pub async fn comes_to(&self, mut is_so: impl AsyncFnMut(&Scenario) -> bool) -> bool {
        let deadline = Instant::now() + A_WHILE;
        while Instant::now() < deadline {
            if is_so(self).await {
                return true;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        false
    }

    /// True if the destination has no pending messages, according to the first pod.
    pub async fn is_idle(&self) -> bool {
        stats(&self.pods[0], "orders").await.is_ok_and(|numbers| numbers["pending"] == 0)
    }

    /// Waits until no message is pending, and checks the deliveries of all messages promised over HTTP.
    pub async fn settles(&self) -> Verdict {
        let promises = self.ledger.all();
        let bodies: Vec<String> = promises.iter().map(|promise| promise.body.clone()).collect();
        self.settles_with(&bodies).await
    }

    /// Like [`Scenario::settles`], for these bodies, which must arrive in this order.
    pub async fn settles_with(&self, bodies: &[String]) -> Verdict {
        self.until(async |scenario| scenario.is_idle().await).await?;
        let deliveries = self.journal.all();
        let mut last = 0;
        for body in bodies {
            let body = if self.is_transformed { transformed(body) } else { body.clone() };
            let of_it: Vec<(usize, u64)> = deliveries
                .iter()
                .enumerate()
                .filter(|(_, delivery)| delivery.body == body)
                .map(|(at, delivery)| (at + 1, delivery.headers.as_ref().unwrap().sequence))
                .collect();
            let Some((first, sequence)) = of_it.first() else { return Err(Anomaly::Lost) };
            if of_it.iter().any(|(_, other)| other != sequence) {
                return Err(Anomaly::Doubled);
            }
            if *first < last {
                return Err(Anomaly::Reordered);
            }
            last = *first;
        }
        Ok(())
    }

    /// The index of the pod that is caught.
    pub fn at(&self, held: &Caught) -> usize {
        self.pods.iter().position(|pod| pod.id() == held.visit.process).unwrap()
    }

    /// Kills the pod that is caught.
    pub fn kills(&mut self, held: Caught) {
        let at = self.at(&held);
        self.pods[at].kill();
        held.go();
    }

    /// The last sequence that Redis has stamped.
    pub async fn last_sequence(&self) -> u64 {
        let mut redis = self.redis.connection().await;
        let last: Option<u64> = redis::cmd("HGET")
            .arg("reseq:{p00}:d:orders")
            .arg("last")
            .query_async(&mut redis)
            .await
            .unwrap();
        last.unwrap_or_default()
    }

    /// The stored record of the message with the last sequence.
    pub async fn stored_record(&self) -> Vec<u8> {
        let last = self.last_sequence().await.to_string();
        self.redis.ask(&["HGET", "reseq:{p00}:d:orders:messages", &last]).await.unwrap()
    }

    /// Publishes a wake-up with a message. `versions` and `epochs` are added to the current version and epoch.
    pub async fn hand_over(&self, versions: u64, epochs: u64, sequence: u64, record: &[u8]) {
        let mut redis = self.redis.connection().await;
        let number = async |key: &str, field: &str| {
            self.redis.ask::<u64>(&["HGET", key, field]).await.unwrap()
        };
        let version = number("reseq:{p00}:d:orders", "version").await + versions;
        let epoch = number("reseq:{p00}:epoch", "epoch").await + epochs;
        let head = format!("orders={version},{epoch},{sequence},{}:", record.len());
        let message = [head.as_bytes(), record].concat();
        let mut publish = redis::cmd("SPUBLISH");
        publish.arg("reseq:{p00}:wake:releasable").arg(message);
        let heard: u64 = publish.query_async(&mut redis).await.unwrap();
        assert!(heard > 0, "nobody listens");
    }

    /// Removes the destination with all its pending messages, and creates it again unchanged.
    pub async fn make_again(&self) {
        let settings = config::Redis {
            url: self.redis.url().to_owned(),
            partitions: 1,
            ..config::Redis::default()
        };
        let (store, _) = Store::open(&settings, Duration::from_secs(30)).await.unwrap();
        let words = ["HGET", "reseq:{p00}:d:orders", "definition"];
        let definition: String = self.redis.ask(&words).await.unwrap();
        store.delete_destination(&"orders".parse().unwrap(), true).await.unwrap();
        store.define(&serde_json::from_str(&definition).unwrap()).await.unwrap();
    }

    /// A producer's TCP connection to the first pod.
    pub async fn connect(&self) -> Frames {
        let address = self.pods[0].addresses.tcp(0);
        let stream = eventually("the pod listens", async || {
            TcpStream::connect(address).await.map_err(|error| error.to_string())
        })
        .await;
        stream.set_nodelay(true).unwrap();
        Frames { stream: BufStream::new(stream), patience: self.patience }
    }
}

/// A producer that sends lines.
pub struct Frames {
    stream: BufStream<TcpStream>,
    patience: Duration,
}

impl Frames {
    pub async fn write(&mut self, body: &str) {
        let _ = write_frame(&mut self.stream, body, false).await;
    }

    /// The next answer: the sequence, or `None` if the line was refused or the connection ended.
    pub async fn answer(&mut self) -> Result<Option<u64>, Anomaly> {
        let answer = tokio::time::timeout(self.patience, read_frame(&mut self.stream, false)).await;
        let line = answer.map_err(|_| Anomaly::Stuck)?.ok().flatten();
        Ok(line.and_then(|line| line.strip_prefix("OK ")?.parse().ok()))
    }

    /// An answer that arrives although it must not come yet.
    pub async fn early_answer(&mut self) -> Option<u64> {
        let answer = tokio::time::timeout(A_WHILE, self.answer()).await;
        answer.ok()?.ok()?
    }
}

async fn receiver(journal: &Arc<Journal>, manners: Manners) -> (String, AbortOnDropHandle<()>) {
    let journal = journal.clone();
    let (address, server) = http::serve(move |request| {
        let journal = journal.clone();
        async move {
            let (sequence, attempt) =
                (request.number("reseq-sequence"), request.number("reseq-attempt"));
            if manners.is_unclear {
                return Some(takes_one(&journal, &request, sequence, attempt));
            }
            // The delay is the behaviour under test.
            tokio::time::sleep(Duration::from_millis(manners.takes_ms)).await;
            let Manners { refuses_each, .. } = manners;
            if journal.all().len() < manners.refuses_first {
                journal.note(note(&request, refused(&request.body), sequence, attempt));
                return Some(Answer::status(503));
            }
            let is_due = refuses_each > 0 && sequence % refuses_each == 0;
            let is_first = !journal.all().iter().any(|one| one.body == refused(&request.body));
            if is_due && is_first {
                journal.note(note(&request, refused(&request.body), sequence, attempt));
                return Some(Answer::status(500));
            }
            journal.note(note(&request, request.body.clone(), sequence, attempt));
            Some(Answer::status(200))
        }
    })
    .await;
    (format!("http://{address}/in"), server)
}

/// Accepts the first message of a batch.
fn takes_one(journal: &Journal, request: &http::Request, sequence: u64, attempt: u64) -> Answer {
    let envelopes: Vec<Value> = serde_json::from_str(&request.body).unwrap();
    let (body, id) = (envelopes[0]["body"].to_string(), envelopes[0]["id"].to_string());
    let epoch = request.number("reseq-epoch");
    let headers = Headers { epoch, sequence, previous: 0, id, key: None, attempt };
    journal.note(Delivery { destination: "orders".to_owned(), body, headers: Some(headers) });
    let count = if attempt == 1 { "1.0" } else { "1" };
    Answer { body: format!("{{\"accepted\": {count}}}"), ..Answer::status(200) }
}

/// The journal's record of a refused body.
fn refused(body: &str) -> String {
    format!("refused {body}")
}

fn note(request: &http::Request, body: String, sequence: u64, attempt: u64) -> Delivery {
    let headers = Headers {
        epoch: request.number("reseq-epoch"),
        sequence,
        previous: 0,
        id: request.header("reseq-id").to_owned(),
        key: None,
        attempt,
    };
    Delivery { destination: "orders".to_owned(), body, headers: Some(headers) }
}

async fn transformer(journal: &Arc<Journal>, manners: Manners) -> (String, AbortOnDropHandle<()>) {
    let journal = journal.clone();
    let (address, server) = http::serve(move |request| {
        let journal = journal.clone();
        async move {
            let (sequence, attempt) =
                (request.number("reseq-sequence"), request.number("reseq-attempt"));
            journal.note(note(&request, request.body.clone(), sequence, attempt));
            if sequence == 3 && attempt == 1 {
                // The delay is the behaviour under test.
                tokio::time::sleep(Duration::from_millis(manners.third_takes_ms)).await;
            }
            if sequence % manners.fails_each.max(1) == 0 && attempt == 1 {
                return Some(Answer::status(503));
            }
            Some(Answer { body: transformed(&request.body), ..Answer::status(200) })
        }
    })
    .await;
    (format!("http://{address}/"), server)
}
