//! Pods whose clocks are one hour ahead or behind, in every role at once. Reseq decides by the
//! clock of Redis, so no message is early, late, lost or out of order.

use crate::support;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use support::{
    checker::{Rule, check, drained},
    ledger::Ledger,
    pods::{Pod, Settings, client},
    preload::Clock,
    producer::{Item, Producer},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    transformer::Transformer,
    wait::eventually,
};
use tempfile::TempDir;

const MESSAGES: usize = 200;
const BATCH: usize = 10;
const SEED: u64 = 37;
const SLOWEST_MS: u64 = 20;
/// The delay of delayed messages.
const DELAY: Duration = Duration::from_secs(2);
/// No test takes this long. A wrong clock shows as a difference of an hour.
const HALF_AN_HOUR_MS: u64 = 30 * 60 * 1000;

const RULES: [Rule; 2] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "later", by_key: false, is_transformed: false },
];

struct Deployment {
    redis: TestRedis,
    inbox: Arc<Inbox>,
    ledger: Arc<Ledger>,
    settings: Settings,
    transformer: Transformer,
    /// The clocks of the pods.
    clocks: TempDir,
    _receiver: Receiver,
}

impl Deployment {
    async fn new() -> Deployment {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let receiver = Receiver::http(&inbox).await;
        let url = receiver.url();
        let transform = format!("{{ kind = \"http\", url = \"{}\" }}", transformer.url());
        let orders = format!("url = \"{url}\"\nlog_max = 100\ntransform = {transform}");
        let later = format!("url = \"{url}\"\nordering = \"none\"\nlog_max = 100");
        let mut settings =
            Settings::new(redis.url()).destination("orders", &orders).destination("later", &later);
        settings.partitions = 4;
        settings.sender_lease_ms = 1500;
        let ledger = Arc::new(Ledger::default());
        let clocks = tempfile::tempdir().unwrap();
        Deployment { redis, inbox, ledger, settings, transformer, clocks, _receiver: receiver }
    }

    /// A pod whose clock is an hour ahead or behind. Its monotonic clock is right, as on a
    /// machine with a wrong time.
    async fn pod(&self, role: &str, is_ahead: bool) -> Pod {
        let mut settings = self.settings.clone();
        let name = if is_ahead { "ahead" } else { "behind" };
        let dir = self.clocks.path().join(name);
        let clock = Clock::in_dir(&dir);
        if !dir.exists() {
            std::fs::create_dir(&dir).unwrap();
            clock.make();
            clock.step(2 * Duration::from_millis(HALF_AN_HOUR_MS), is_ahead);
        }
        let owned =
            |(name, path): (&str, PathBuf)| (name.to_owned(), path.to_str().unwrap().into());
        settings.environment = clock.environment().into_iter().map(owned).collect();
        Pod::start(&format!("{role}-{name}"), role, &settings).await
    }

    /// One pod whose clock is ahead, and one whose clock is behind.
    async fn pair(&self, role: &str) -> [Pod; 2] {
        [self.pod(role, true).await, self.pod(role, false).await]
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn ms_of(time: &Value) -> u64 {
    let format = &time::format_description::well_known::Rfc3339;
    let time = time::OffsetDateTime::parse(time.as_str().unwrap(), format).unwrap();
    (time.unix_timestamp_nanos() / 1_000_000) as u64
}

#[tokio::test]
async fn wrong_pod_clocks_change_no_order_lease_epoch_or_latency() {
    let deployment = Deployment::new().await;
    let doors = deployment.pair("ingest").await;
    clock_is_wrong(&doors).await;
    doctor_names_the_clock_of(&doors).await;
    let mut processors = deployment.pair("processor").await;
    let senders = deployment.pair("sender").await;
    let addresses = [doors[0].addresses.clone(), doors[1].addresses.clone()];
    let ledger = deployment.ledger.clone();
    // Alternates between the two ingest pods, so that neighbouring messages have times two hours
    // apart.
    let send = async |from: usize, to: usize| {
        for batch in from / BATCH..to / BATCH {
            let door = std::slice::from_ref(&addresses[batch % 2]);
            let mut producer = Producer::new("producer", door, &ledger);
            let item = |number| Item::new(&["orders"], None, "producer", number);
            let items = (BATCH * batch..BATCH * (batch + 1)).map(item).collect();
            producer.send_batch(items).await;
        }
    };
    send(0, MESSAGES / 2).await;
    deployment.inbox.journal.reaches(MESSAGES / 4).await;
    // Leases last as long as they should, regardless of the pod that granted them: another
    // processor takes over a dead one's work.
    processors[0].kill();
    processors[0].restart().await;
    deployment.inbox.journal.reaches(MESSAGES / 2).await;
    deployment.redis.kill_and_restart().await;
    send(MESSAGES / 2, MESSAGES).await;
    drained(&doors[0], &deployment.ledger, &["orders"]).await;
    let found = check(&deployment.ledger, &deployment.inbox.journal, &RULES);
    assert_eq!(found.messages, MESSAGES);
    assert!(deployment.transformer.work.overtaken() > 0, "nothing had to be put in order");

    epochs_are_by_the_clock_of_redis(&deployment);
    for pod in doors.iter().chain(&senders) {
        latencies_are_true(pod, "orders").await;
    }
    let ages: f64 = senders[0].metric("reseq_end_to_end_seconds_sum").await
        + senders[1].metric("reseq_end_to_end_seconds_sum").await;
    assert!(ages < (HALF_AN_HOUR_MS / 1000) as f64, "{ages} s");
}

/// Checks that the clocks are wrong: each pod logs its own time.
async fn clock_is_wrong(pods: &[Pod]) {
    for pod in pods {
        let log = pod.log();
        let first = log.lines().next().expect("a pod logs its start");
        let end = first.find('Z').expect("a line of the log begins with its time") + 1;
        let said = ms_of(&Value::from(&first[..end]));
        assert!(said.abs_diff(now_ms()) > HALF_AN_HOUR_MS, "{first}");
    }
}

/// Each pod compares its own clock with that of the server, and knows that of the other from its heartbeats.
async fn doctor_names_the_clock_of(pods: &[Pod; 2]) {
    for (asked, words) in [(0, "behind"), (1, "ahead of")] {
        eventually("both clocks are found", async || {
            let answer = client().get(pods[asked].url("/v1/doctor")).send().await.unwrap();
            let report: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            let found = report["findings"].as_array().unwrap().iter();
            let found = found.filter(|finding| finding["check"] == "clocks");
            let found: Vec<&str> =
                found.map(|finding| finding["summary"].as_str().unwrap()).collect();
            let of_both = found.len() == 2 && found.iter().all(|one| one.contains(words));
            if of_both { Ok(()) } else { Err(report.to_string()) }
        })
        .await;
    }
}

fn epochs_are_by_the_clock_of_redis(deployment: &Deployment) {
    let promises = deployment.ledger.all();
    let mut epochs: Vec<u64> = promises.iter().map(|promise| promise.epoch.unwrap()).collect();
    epochs.dedup();
    assert!(epochs.is_sorted() && epochs.len() == 2, "one more with the restart: {epochs:?}");
    for epoch in epochs {
        assert!(epoch.abs_diff(now_ms()) < HALF_AN_HOUR_MS, "{epoch}");
    }
}

async fn latencies_are_true(pod: &Pod, destination: &str) {
    let url = pod.url(&format!("/v1/destinations/{destination}/log"));
    let text = client().get(url).send().await.unwrap().text().await.unwrap();
    let log: Value = serde_json::from_str(&text).unwrap();
    let entries = log["items"].as_array().unwrap_or_else(|| panic!("{text}"));
    assert!(entries.len() > 10, "{text}");
    for entry in entries {
        let (received, settled) = (ms_of(&entry["received_at"]), ms_of(&entry["settled_at"]));
        assert!(received.abs_diff(now_ms()) < HALF_AN_HOUR_MS, "{entry}");
        assert!(received <= settled && settled - received < HALF_AN_HOUR_MS, "{entry}");
        assert_eq!(entry["latency"]["total_ms"], settled - received, "{entry}");
    }
}

#[tokio::test]
async fn delays_and_idempotency_windows_are_by_the_clock_of_redis() {
    let deployment = Deployment::new().await;
    let doors = deployment.pair("ingest").await;
    let _processors = deployment.pair("processor").await;
    let _senders = deployment.pair("sender").await;
    let begun = Instant::now();
    let mut due: Vec<String> = Vec::new();
    for (at, door) in doors.iter().enumerate() {
        let due_at = UNIX_EPOCH + Duration::from_millis(now_ms()) + DELAY;
        let due_at = time::OffsetDateTime::from(due_at);
        let format = &time::format_description::well_known::Rfc3339;
        let due_at = due_at.format(format).unwrap();
        for (header, value) in [("Reseq-Delay", "2s"), ("Reseq-Due-At", due_at.as_str())] {
            let body = format!("{header} through {at}");
            assert_eq!(put(door, &body, &[(header, value)]).await["duplicate"], false, "{body}");
            due.push(body);
        }
    }
    // Sends the same key through both pods: the second one reports a duplicate.
    let once = [("Idempotency-Key", "once"), ("Reseq-Delay", "2s")];
    let (first, second) =
        (put(&doors[0], "once", &once).await, put(&doors[1], "once", &once).await);
    assert_eq!((&first["duplicate"], &second["duplicate"]), (&false.into(), &true.into()));
    assert_eq!(first["sequence"], second["sequence"]);
    due.push("once".to_owned());

    eventually("what was delayed arrives", async || {
        let arrived = deployment.inbox.journal.messages();
        let early = begun.elapsed() < DELAY - Duration::from_millis(50);
        assert!(!early || arrived == 0, "{arrived} came before they were due");
        if arrived == due.len() { Ok(()) } else { Err(format!("{arrived} have arrived")) }
    })
    .await;
}

/// Sends a body. Returns the answer for its only delivery.
async fn put(door: &Pod, body: &str, headers: &[(&str, &str)]) -> Value {
    let url = door.url("/v1/destinations/later/messages");
    let mut request = client().post(url).header("content-type", "text/plain");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.body(body.to_owned()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 202, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["deliveries"][0].clone()
}
