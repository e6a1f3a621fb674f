//! Tests Redis near its `maxmemory`: ingest refuses, and pending messages drain.

use std::sync::Arc;

use ::redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{Service, position, said};
use crate::support::{
    checker::stats,
    gate::Point,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::{eventually, within},
};

const RAW: &str = "/v1/destinations/erp/messages";
/// In bytes. So large that the service's own use does not matter.
const FILLER: u64 = 64 << 20;

async fn last(service: &Service) -> Value {
    stats(&service.pod, "erp").await.unwrap()["last_sequence"].clone()
}

async fn used_memory(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = ::redis::cmd("INFO").arg("memory").query_async(redis).await.unwrap();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    used.parse().unwrap()
}

async fn set_maxmemory(redis: &mut MultiplexedConnection, bytes: u64) {
    let mut command = ::redis::cmd("CONFIG");
    command.arg("SET").arg("maxmemory").arg(bytes).exec_async(redis).await.unwrap();
}

#[tokio::test]
async fn ingest_stops_above_memory_mark_but_delivery_goes_on() {
    let service = Service::start().await;
    service.inbox.gate.hold(Point::Arrived);
    assert_eq!(said(service.post(RAW, "text/plain", "first")).await.status, 202);
    service.inbox.gate.holds(1).await;

    let mut redis = service.redis.connection().await;
    let mut fill = ::redis::cmd("SETRANGE");
    fill.arg("filler").arg(FILLER).arg("x").exec_async(&mut redis).await.unwrap();
    let max = used_memory(&mut redis).await * 100 / 95;
    set_maxmemory(&mut redis, max).await;
    let mut stored = 1;
    eventually("arrivals are refused", async || {
        let said = said(service.post(RAW, "text/plain", format!("{stored}"))).await;
        if said.status == 202 {
            stored += 1;
            return Err(said.body.to_string());
        }
        said.is_problem(503, "memory_high", "memory_high_percent");
        Ok(())
    })
    .await;
    let limit = service.pod.metric("reseq_redis_memory_max_bytes").await;
    let used = service.pod.metric("reseq_redis_memory_used_bytes").await;
    assert!(used > limit * 0.9 && limit as u64 == max, "{used} of {limit}");

    // Over TCP there is no answer: the connection waits.
    let mut stream = TcpStream::connect(service.pod.addresses.tcp(0)).await.unwrap();
    stream.write_all(b"over tcp\n").await.unwrap();
    eventually("the connection waits", async || {
        let now = service.pod.metric("reseq_ingest_tcp_paused").await;
        if now == 1.0 { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    service.inbox.gate.let_go();
    service.inbox.journal.reaches(stored).await;
    said(service.post(RAW, "text/plain", "no")).await.is_problem(503, "memory_high", "");
    assert_eq!(last(&service).await, stored);

    set_maxmemory(&mut redis, 0).await;
    let mut answer = String::new();
    let mut stream = BufReader::new(stream);
    within("the frame is taken", stream.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer, format!("OK {}\n", stored + 1));
    let taken = said(service.post(RAW, "text/plain", "again")).await;
    assert_eq!((taken.status, position(&taken.body)), (202, (stored as u64 + 2, false)));
    service.inbox.journal.reaches(stored + 2).await;
}

/// Fills Redis to above its limit, with messages of `name` that wait.
async fn overfill(service: &Service, redis: &mut MultiplexedConnection, name: &str, count: usize) {
    let path = format!("/v1/destinations/{name}/messages");
    for number in 0..count {
        let body = format!("{number} {}", "y".repeat(900));
        assert_eq!(said(service.post(&path, "text/plain", body)).await.status, 202);
    }
    let max = used_memory(redis).await - 100_000;
    set_maxmemory(redis, max).await;
    eventually("ingest is closed", async || {
        let said = said(service.post(&path, "text/plain", "more")).await;
        if said.status == 503 { Ok(()) } else { Err(said.status.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn full_redis_still_does_what_frees_or_shows_memory() {
    let service = Service::start().await;
    let (worker, log) = (json!({"kind": "worker"}), json!({"log_max": 1000, "log_bodies": true}));
    service.define("work", json!({"transform": worker, "on_exhausted": "dead_letter"})).await;
    service.define("logged", log).await;
    let halting = json!({"kind": "jq", "expression": "error(\"no\")"});
    service.define("halted", json!({"transform": halting})).await;
    let mut redis = service.redis.connection().await;
    let path = "/v1/destinations/halted/messages";
    assert_eq!(said(service.post(path, "application/json", "1")).await.status, 202);
    eventually("its lane is halted", async || {
        let halted = stats(&service.pod, "halted").await?["halted"].clone();
        if halted == 1 { Ok(()) } else { Err(halted.to_string()) }
    })
    .await;
    overfill(&service, &mut redis, "work", 20).await;

    let destinations = "/v1/destinations";
    let lease = said(service.json("/v1/leases", &json!({"destinations": ["work"]}))).await;
    let token = lease.body["leases"][0]["token"].clone();
    let failed = json!({"items": [{"token": token, "final": true, "error": "no"}]});
    for (what, request) in [
        ("stats", service.get(&format!("{destinations}/work/stats"))),
        ("log", service.get(&format!("{destinations}/logged/log"))),
        ("why", service.get(&format!("{destinations}/halted/why"))),
        ("messages", service.get(&format!("{destinations}/work/messages"))),
        ("fail", service.json("/v1/leases/fail", &failed)),
        (
            "skip-head",
            service.json(&format!("{destinations}/halted/skip-head"), &json!({"sequence": 1})),
        ),
        (
            "discard",
            service
                .json(&format!("{destinations}/work/dead-letters/discard"), &json!({"all": true})),
        ),
        ("log_max", service.put("logged", &json!({"url": service.receiver.url(), "log_max": 1}))),
        ("purge", service.json(&format!("{destinations}/work/purge"), &json!({}))),
    ] {
        let said = said(request).await;
        assert_eq!(said.status, 200, "{what}: {}", said.body);
    }
    let other = said(service.put("another", &json!({"url": service.receiver.url()}))).await;
    other.is_problem(503, "memory_high", "little memory");
    assert_eq!(stats(&service.pod, "work").await.unwrap()["pending"], 0);
}

#[tokio::test]
async fn full_redis_with_its_receiver_up_empties_by_itself() {
    const COUNT: usize = 60;
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let mut settings = Settings::new(redis.url());
    for ordering in ["destination", "key", "none"] {
        let fields = format!(
            "url = \"{}\"\nordering = \"{ordering}\"\n\
             transform = {{ kind = \"jq\", expression = \"[., ., .]\" }}",
            receiver.url()
        );
        settings = settings.destination(ordering, &fields);
    }
    let pod = Pod::start("ingest", "ingest", &settings).await;
    for number in 0..COUNT {
        for ordering in ["destination", "key", "none"] {
            let body = json!({"number": number, "filler": "y".repeat(700)});
            let key = (ordering == "key").then(|| format!("k{}", number % 7));
            let item = json!({"destinations": [ordering], "body": body, "key": key});
            let request = client().post(pod.url("/v1/messages")).json(&item);
            assert_eq!(said(request).await.status, 202);
        }
    }
    // No message was processed yet, and each output is longer than its input.
    let mut connection = redis.connection().await;
    let max = used_memory(&mut connection).await - 100_000;
    set_maxmemory(&mut connection, max).await;
    let _others = Pod::start("others", "processor,sender", &settings).await;
    inbox.journal.reaches(3 * COUNT).await;
    for name in ["destination", "key", "none"] {
        eventually("it is empty", async || {
            let pending = stats(&pod, name).await?["pending"].clone();
            if pending == 0 { Ok(()) } else { Err(pending.to_string()) }
        })
        .await;
    }
}

#[tokio::test]
async fn outputs_of_a_full_redis_stay_within_the_reserve() {
    const OUTPUT: usize = 200_000;
    let other = |settings: Settings| Settings {
        http: "body_bytes_max = 1000000\nbatch_bytes_max = 4000000".into(),
        ..settings
    };
    let service = Service::start_with(other).await;
    service.inbox.gate.hold(Point::Arrived);
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    let mut redis = service.redis.connection().await;
    let path = "/v1/destinations/work/messages";
    for number in 0..40 {
        assert_eq!(said(service.post(path, "text/plain", number.to_string())).await.status, 202);
    }
    let claim = json!({"destinations": ["work"], "max": 10, "lease_ms": 60_000});
    let held = said(service.json("/v1/leases", &claim)).await;
    // The reserve has room for a few of the outputs.
    let mut fill = ::redis::cmd("SETRANGE");
    fill.arg("filler").arg(40_000_000).arg("x").exec_async(&mut redis).await.unwrap();
    let max = used_memory(&mut redis).await;
    set_maxmemory(&mut redis, max).await;
    let complete = async |token: &Value| {
        let item = json!({"token": token, "body": "z".repeat(OUTPUT)});
        said(service.json("/v1/leases/complete", &json!({"items": [item]}))).await
    };
    let tokens: Vec<&Value> =
        held.body["leases"].as_array().unwrap().iter().map(|lease| &lease["token"]).collect();
    assert_eq!(tokens.len(), 10);
    // This message is not a head, so it waits. Its lease continues.
    complete(tokens[1]).await.is_problem(503, "memory_high", "little memory");
    let first = complete(tokens[0]).await;
    assert_eq!(first.body["results"][0]["status"], "ok", "the reserve is for heads");
    for token in &tokens[1..] {
        complete(token).await.is_problem(503, "memory_high", "little memory");
    }
    let more = said(service.json("/v1/leases", &claim)).await;
    assert_eq!(more.body["leases"], json!([]), "no other message is a head");
    let used = used_memory(&mut redis).await;
    assert!(used < max + max / 20 + 2 * OUTPUT as u64, "{used} of {max}");
    // A short output is not refused. All messages continue once there is memory.
    let short = json!({"items": [{"token": tokens[1], "body": 1}]});
    let short = said(service.json("/v1/leases/complete", &short)).await;
    assert_eq!(short.body["results"][0]["status"], "ok");
    set_maxmemory(&mut redis, 0).await;
    for token in &tokens[2..] {
        assert_eq!(complete(token).await.body["results"][0]["status"], "ok");
    }
    service.inbox.gate.let_go();
    eventually("all are delivered", async || {
        let delivered = stats(&service.pod, "work").await?["delivered_total"].clone();
        if delivered == 10 { Ok(()) } else { Err(delivered.to_string()) }
    })
    .await;
}
