//! Tests that one destination takes as much of a process as it can, and other destinations continue.

use std::{sync::Arc, time::Duration};

use config::Config;
use domain::{Destination, TransformKind};
use reseq::{Failure, Output, Reseq, Stamped, Transform};
use serde_json::{Value, json};

use crate::support::{
    dns::Dns,
    holding::Holding,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::{eventually, within},
};

/// The limit of file descriptors of these pods.
const DESCRIPTORS: u32 = 256;
const HOUR_MS: u64 = 3_600_000;

/// A batch of this many messages, all different.
fn lines(name: &str, count: usize) -> String {
    let line = |_| {
        let body = uuid::Uuid::new_v4().to_string();
        json!({"destinations": [name], "body": body}).to_string() + "\n"
    };
    (0..count).map(line).collect()
}

/// A pod with few descriptors, and a receiver that answers.
struct Crowded {
    pod: Pod,
    inbox: Arc<Inbox>,
    receiver: Receiver,
    _redis: TestRedis,
}

impl Crowded {
    async fn start(outgoing: &str) -> Crowded {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let settings = Settings::new(redis.url());
        let outgoing = format!("{}\n{outgoing}", settings.outgoing);
        let settings = Settings { outgoing, descriptors: Some(DESCRIPTORS), ..settings };
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Crowded { pod, inbox, receiver, _redis: redis }
    }

    async fn define(&self, name: &str, definition: Value) {
        let put = client().put(self.pod.url(&format!("/v1/destinations/{name}")));
        let answer = put.json(&definition).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }

    async fn send(&self, name: &str, count: usize) {
        let post = client().post(self.pod.url("/v1/messages")).body(lines(name, count));
        let answer = post.header("content-type", "application/x-ndjson").send().await.unwrap();
        assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
    }

    async fn why(&self, name: &str) -> Value {
        let get = client().get(self.pod.url(&format!("/v1/destinations/{name}/why")));
        get.send().await.unwrap().json().await.unwrap()
    }

    /// Waits until the receiver has this many messages of a destination.
    async fn receives(&self, name: &str, count: usize) {
        eventually("the neighbour is served", async || {
            let got = self.inbox.journal.messages_of(name);
            if got == count { Ok(()) } else { Err(format!("{got}; {}", self.why(name).await)) }
        })
        .await;
    }

    async fn is_healthy(&self) {
        let answer = client().get(self.pod.url("/healthz")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// A number of the metric `reseq_places_…`.
    async fn places(&self, what: &str, of: &str) -> usize {
        self.pod.metric(&format!("reseq_places_{what}{{of=\"{of}\"}}")).await as usize
    }
}

fn many_lanes(url: &str) -> Value {
    json!({"url": url, "ordering": "none",
        "delivery": {"lanes_max": 1000, "timeout_ms": HOUR_MS}})
}

#[tokio::test]
async fn slow_receiver_holds_half_of_the_connections() {
    let crowded = Crowded::start("").await;
    let holding = Holding::start().await;
    crowded.define("evil", many_lanes(&holding.url())).await;
    crowded.send("evil", 300).await;
    let why = eventually("deliveries wait for a connection", async || {
        let why = crowded.why("evil").await;
        if why["cause"] == "awaiting_connection" { Ok(why) } else { Err(why.to_string()) }
    })
    .await;
    let sentence = why["explanation"].as_str().unwrap();
    assert!(sentence.contains("deliveries of evil wait"), "{sentence}");
    let most = crowded.places("taken", "connections").await;
    assert!((8..=20).contains(&most) && crowded.places("waiting", "connections").await > 200);
    // A second greedy destination gets half of the rest, and so on. Other destinations continue.
    crowded.define("evil-2", many_lanes(&holding.url())).await;
    crowded.send("evil-2", 300).await;
    eventually("the second one holds its half", async || {
        let taken = crowded.places("taken", "connections").await;
        if taken > most && holding.held() == taken { Ok(()) } else { Err(taken.to_string()) }
    })
    .await;
    crowded.define("neighbour", json!({"url": crowded.receiver.url()})).await;
    crowded.send("neighbour", 50).await;
    crowded.receives("neighbour", 50).await;
    crowded.is_healthy().await;
    // Released places are used again, so no place is lost.
    crowded.inbox.slow_down(0);
    for name in ["evil", "evil-2"] {
        let url = crowded.pod.url(&format!("/v1/destinations/{name}?force=true"));
        assert!(client().delete(url).send().await.unwrap().status().is_success());
    }
    eventually("all places are free again", async || {
        let taken = crowded.places("taken", "connections").await;
        let waiting = crowded.places("waiting", "connections").await;
        if taken + waiting == 0 { Ok(()) } else { Err(format!("{taken} {waiting}")) }
    })
    .await;
}

#[tokio::test]
async fn idle_connections_are_closed_when_there_are_many() {
    let crowded = Crowded::start("").await;
    let mut receivers = Vec::new();
    for number in 0..60 {
        let receiver = Receiver::http(&crowded.inbox).await;
        crowded.define(&format!("d{number}"), json!({"url": receiver.url()})).await;
        receivers.push(receiver);
    }
    for round in 1..=3 {
        for number in 0..60 {
            crowded.send(&format!("d{number}"), 1).await;
        }
        for number in 0..60 {
            crowded.receives(&format!("d{number}"), round).await;
        }
    }
    // Each receiver keeps its connections open.
    let open = std::fs::read_dir(format!("/proc/{}/fd", crowded.pod.id())).unwrap().count();
    assert!(open < 110, "{open} descriptors");
    crowded.is_healthy().await;
}

#[tokio::test]
async fn hanging_transform_stops_nobody_else() {
    let crowded = Crowded::start("").await;
    let holding = Holding::start().await;
    let evil =
        json!({"kind": "http", "url": holding.url(), "timeout_ms": HOUR_MS, "concurrency": 1000});
    crowded.define("evil", json!({"url": crowded.receiver.url(), "transform": evil})).await;
    crowded.send("evil", 1000).await;
    eventually("it holds its half, and the others wait", async || {
        let waiting = crowded.places("waiting", "connections").await;
        if waiting > 900 { Ok(()) } else { Err(format!("{waiting} wait")) }
    })
    .await;
    let transformer = crate::support::transformer::Transformer::start(1, 5).await;
    for (name, transform) in [
        ("http", json!({"kind": "http", "url": format!("http://{}/", transformer.address)})),
        ("jq", json!({"kind": "jq", "expression": "."})),
    ] {
        crowded.define(name, json!({"url": crowded.receiver.url(), "transform": transform})).await;
        crowded.send(name, 20).await;
        crowded.receives(name, 20).await;
    }
    crowded.is_healthy().await;
}

#[tokio::test]
async fn endless_expressions_leave_processes_to_others() {
    let crowded = Crowded::start("").await;
    let define = async |name: &str, expression: &str| {
        let transform = json!({"kind": "jq", "expression": expression, "timeout_ms": HOUR_MS});
        crowded.define(name, json!({"url": crowded.receiver.url(), "transform": transform})).await;
    };
    define("known", "[.]").await;
    crowded.send("known", 1).await;
    crowded.receives("known", 1).await;
    for number in 0..17 {
        define(&format!("endless-{number}"), &format!("def f: f; {number} | f")).await;
        crowded.send(&format!("endless-{number}"), 5).await;
    }
    eventually("some wait for a process", async || {
        let waiting = crowded.places("waiting", "expressions").await;
        if waiting > 0 { Ok(()) } else { Err(format!("{waiting} wait")) }
    })
    .await;
    crowded.send("known", 10).await;
    crowded.receives("known", 11).await;
}

#[tokio::test]
async fn silent_dns_stops_only_those_who_ask_it() {
    let dns = Dns::start([127, 0, 0, 1]).await;
    let crowded = Crowded::start(&dns.setting()).await;
    for number in 0..40 {
        let name = format!("evil-{number}");
        let url = format!("http://silent-{number}.example.:80/");
        crowded.define(&name, many_lanes(&url)).await;
        crowded.send(&name, 20).await;
    }
    eventually("look-ups are not answered", async || {
        if dns.ignored() > 20 { Ok(()) } else { Err(dns.ignored().to_string()) }
    })
    .await;
    let port = crowded.receiver.address.port();
    let by_name = format!("http://receiver.example.:{port}/in");
    crowded.define("by-name", json!({"url": by_name})).await;
    crowded.define("by-address", json!({"url": crowded.receiver.url()})).await;
    for name in ["by-address", "by-name"] {
        crowded.send(name, 10).await;
        crowded.receives(name, 10).await;
    }
    crowded.is_healthy().await;
}

/// A look-up that never ends for `evil`.
struct Hangs;

#[async_trait::async_trait]
impl Transform for Hangs {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        if message.destination.as_str() == "evil" {
            std::future::pending::<()>().await;
        }
        Ok(Output::Deliver(message.message.body.clone()))
    }
}

#[tokio::test]
async fn hanging_native_transform_leaves_a_tenth() {
    let (redis, inbox) = (TestRedis::start().await, Arc::new(Inbox::default()));
    let receiver = Receiver::http(&inbox).await;
    let destination = |name: &str| {
        let mut destination = Destination::new(name.parse().unwrap(), receiver.url());
        destination.transform.kind = TransformKind::Native;
        destination.transform.name = Some("hangs".into());
        destination.transform.timeout_ms = HOUR_MS;
        destination.transform.concurrency = 1000;
        destination
    };
    let destinations = vec![destination("evil"), destination("neighbour")];
    let mut config = Config { destinations, ..Config::default() };
    config.processor.concurrency = 20;
    config.http.listen = "127.0.0.1:0".parse().unwrap();
    config.outgoing.allow = vec!["127.0.0.0/8".parse().unwrap()];
    config.redis.url = redis.url().to_owned();
    let running = Reseq::new(config).transform("hangs", Hangs).start().await.unwrap();
    let send = async |name: &str, count: usize| {
        let post = client().post(format!("http://{}/v1/messages", running.http));
        let post = post.header("content-type", "application/x-ndjson").body(lines(name, count));
        assert_eq!(post.send().await.unwrap().status(), 202);
    };
    send("evil", 100).await;
    eventually("it holds what one destination may hold", async || {
        let why = format!("http://{}/v1/destinations/evil/stats", running.http);
        let stats: Value = client().get(why).send().await.unwrap().json().await.unwrap();
        let held = stats["processing"].as_u64();
        if held == Some(18) { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    send("neighbour", 30).await;
    eventually("the neighbour goes on", async || {
        let got = inbox.journal.messages_of("neighbour");
        if got == 30 { Ok(()) } else { Err(got.to_string()) }
    })
    .await;
    drop(within("it stops", tokio::time::timeout(Duration::from_secs(1), running.stop())).await);
}

/// The peak memory of a process, in MiB.
fn peak_mib(pod: &Pod) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pod.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

#[tokio::test]
async fn copies_for_many_destinations_stay_within_the_limit() {
    const LIMIT_MIB: usize = 32;
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    settings.ingest = format!("bytes_in_flight_max = {}", LIMIT_MIB << 20);
    let names: Vec<String> = (0..60).map(|number| format!("d{number}")).collect();
    for name in &names {
        settings = settings.destination(name, "delivery = { kind = \"pull\" }");
    }
    let pod = Pod::start("ingest", "ingest", &settings).await;
    let before = peak_mib(&pod);
    let body = json!({"destinations": names, "body": "x".repeat(1_000_000)}).to_string();
    let send = || async {
        let post = client().post(pod.url("/v1/messages")).body(body.clone());
        let post = post.header("content-type", "application/json");
        post.send().await.unwrap().status().as_u16()
    };
    let answers = futures::future::join_all((0..10).map(|_| send())).await;
    assert!(answers.iter().all(|status| *status == 202), "{answers:?}");
    let grown = peak_mib(&pod) - before;
    assert!(grown < LIMIT_MIB + 100, "{grown} MiB");
}
