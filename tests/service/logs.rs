//! Tests what the log says in an incident: what changed, once, and not each attempt.

use std::sync::Arc;

use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    receiver::{Fault, Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

use crate::support;

/// The most lines that an incident adds to the log of a pod in a minute.
pub const LINES_MAX: usize = 20;
const LANES: usize = 60;

async fn says(pod: &Pod, text: &str) -> String {
    eventually(&format!("the log says {text:?}"), async || {
        let log = pod.log();
        let line = log.lines().find(|line| line.contains(text)).map(str::to_owned);
        line.ok_or(log)
    })
    .await
}

/// The value of a field of a line.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
    rest.split(' ').next().unwrap_or_default()
}

/// How many lines the log has at the default level.
pub fn lines_of(pod: &Pod) -> usize {
    pod.log().lines().filter(|line| !line.contains(" DEBUG ")).count()
}

async fn post(pod: &Pod, path: &str, body: Value) -> Value {
    let answer = client().post(pod.url(path)).json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default()
}

#[tokio::test]
async fn receiver_away_is_one_line_and_its_return_another() {
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let fields = format!(
        "url = \"{}\"\nordering = \"key\"\ndelivery = {{ backoff_ms = 50, backoff_max_ms = 50, \
         breaker_failures = 0 }}",
        receiver.url()
    );
    let settings = Settings::new(redis.url()).destination("erp", &fields);
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let before = lines_of(&pod);
    inbox.always(Some(Fault::Unavailable));
    for lane in 0..LANES {
        let body = json!({"destinations": ["erp"], "body": lane, "key": lane.to_string()});
        post(&pod, "/v1/messages", body).await;
    }
    eventually("each lane was tried several times", async || match inbox.struck() {
        struck if struck > 4 * LANES => Ok(()),
        struck => Err(struck.to_string()),
    })
    .await;
    inbox.always(None);
    inbox.journal.reaches(LANES).await;
    let again = says(&pod, "the receiver works again after").await;
    let log = pod.log();
    let began: Vec<&str> = log.lines().filter(|line| line.contains("began to fail")).collect();
    assert!(began.len() == 1 && began[0].contains("status 503"), "{began:?}");
    assert_eq!(field(began[0], "destination"), "\"erp\"");
    assert!(field(&again, "attempts").parse::<usize>().unwrap() >= LANES, "{again}");
    let lines = lines_of(&pod) - before;
    assert!(lines <= LINES_MAX, "{lines} lines:\n{log}");
}

#[tokio::test]
async fn each_line_bears_the_pod_its_roles_and_its_version() {
    let redis = TestRedis::start().await;
    let pod = Pod::start("sender", "sender", &Settings::new(redis.url())).await;
    let answer = client().get(pod.url("/v1/pods")).send().await.unwrap().text().await.unwrap();
    let pods: Value = serde_json::from_str(&answer).unwrap();
    let end = format!(
        " pod={} roles=sender version={}",
        pods["items"][0]["pod"].as_str().unwrap(),
        env!("CARGO_PKG_VERSION")
    );
    let log = pod.log();
    assert!(log.contains("Reseq runs"), "{log}");
    for line in log.lines() {
        assert!(line.ends_with(&end), "{line}");
        assert!(!line.contains("Some(") && !line.contains("None"), "{line}");
    }
}

#[tokio::test]
async fn redis_away_is_named_though_nobody_asks() {
    let redis = TestRedis::start().await;
    let mut pods = Vec::new();
    for roles in ["ingest", "processor", "sender"] {
        pods.push(Pod::start(roles, roles, &Settings::new(redis.url())).await);
    }
    let before: Vec<usize> = pods.iter().map(lines_of).collect();
    redis.written().await;
    redis.kill();
    for pod in &pods {
        let line = says(pod, "Redis does not answer").await;
        assert!(line.contains("WARN") && line.contains(" address="), "{line}");
    }
    redis.restart().await;
    for (pod, before) in pods.iter().zip(before) {
        says(pod, "Redis answers again").await;
        let log = pod.log();
        let lines = lines_of(pod) - before;
        assert!(lines <= LINES_MAX, "{lines} lines:\n{log}");
        assert_eq!(log.matches("Redis does not answer").count(), 1, "{log}");
    }
}

#[tokio::test]
async fn refusals_of_redis_are_named_when_they_begin_and_end() {
    let redis = TestRedis::start().await;
    let pod = Pod::start("reseq", "ingest,processor,sender", &Settings::new(redis.url())).await;
    let set = async |name: &str, value: &str| {
        redis.ask::<()>(&["CONFIG", "SET", name, value]).await.unwrap();
    };
    for (count, (name, bad, good, reason)) in [
        ("min-replicas-to-write", "1", "0", "NOREPLICAS"),
        ("maxmemory", "1", "0", "OOM its memory is full"),
    ]
    .into_iter()
    .enumerate()
    {
        set(name, bad).await;
        let line = eventually("the log names the reason", async || {
            let log = pod.log();
            let mut lines = log.lines().filter(|line| line.contains(" ERROR "));
            let wanted = format!("Redis refuses writes: {reason}");
            lines.find(|line| line.contains(&wanted)).map(str::to_owned).ok_or(log.clone())
        })
        .await;
        assert!(line.contains(" address="), "{line}");
        set(name, good).await;
        eventually("the log says that it is over", async || {
            let log = pod.log();
            let times = log.matches("Redis accepts writes again").count();
            if times == count + 1 { Ok(()) } else { Err(log) }
        })
        .await;
        let log = pod.log();
        let named = log.lines().filter(|line| line.contains(" ERROR "));
        let named = named.filter(|line| line.contains("Redis refuses writes: "));
        assert_eq!(named.count(), count + 1, "{log}");
    }
}

#[tokio::test]
async fn taken_partitions_name_the_pod_that_had_them() {
    let redis = TestRedis::start().await;
    let settings = Settings { partitions: 4, sender_lease_ms: 1500, ..Settings::new(redis.url()) };
    let mut first = Pod::start("first", "sender", &settings).await;
    let owns = async |pod: &Pod, count: f64| {
        eventually("the pod owns its share", async || {
            let now = pod.metric("reseq_sender_partitions_owned").await;
            if now == count { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
    };
    owns(&first, 4.0).await;
    let second = Pod::start("second", "sender", &settings).await;
    owns(&second, 2.0).await;
    first.kill();
    let line = says(&second, "took partitions from a pod").await;
    let of_first = says(&first, "Reseq runs").await;
    assert_eq!(field(&line, "from"), format!("\"{}\"", field(&of_first, "pod")));
    owns(&second, 4.0).await;
}

#[tokio::test]
async fn expired_leases_are_one_line_that_names_the_worker() {
    let redis = TestRedis::start().await;
    let fields = "url = \"http://127.0.0.1:9/\"\ntransform = { kind = \"worker\" }";
    let settings = Settings::new(redis.url()).destination("work", fields);
    let pod = Pod::start("reseq", "ingest,sender", &settings).await;
    for body in 0..5 {
        post(&pod, "/v1/messages", json!({"destinations": ["work"], "body": body})).await;
    }
    let lease = json!({"destinations": ["work"], "max": 5, "worker": "w-7", "lease_ms": 100,
        "wait_ms": 10_000});
    post(&pod, "/v1/leases", lease).await;
    let line = says(&pod, "leases expired").await;
    assert!(line.contains("workers=\"w-7 (5)\"") && line.contains(" count=5"), "{line}");
}
