//! Kills Redis while a pod runs, and restarts it.

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::{Said, Service, said};
use crate::support::{
    checker::forgotten,
    gate::Point,
    pods::{Pod, Settings, client},
    proxy::Proxy,
    redis::TestRedis,
    wait::{eventually, within},
};

const MESSAGES: &str = "/v1/messages";

fn is_temporary(said: &Said) {
    let code = said.body["code"].as_str().unwrap_or("no code");
    let expected = ["redis_unavailable", "not_confirmed"].contains(&code);
    assert!(said.status == 503 && expected, "{} {}", said.status, said.body);
}

/// Sends message `number` until its outcome is known. Returns whether the first answer was a promise.
async fn send(service: &Service, number: usize) -> bool {
    let body =
        json!({"destinations": ["erp"], "body": number, "idempotency_key": number.to_string()});
    let first = said(service.json(MESSAGES, &body)).await;
    if first.status != 202 {
        is_temporary(&first);
    }
    first.status == 202
}

#[tokio::test]
async fn requests_without_redis_fail_for_now_and_half_store_nothing() {
    let service = Service::start().await;
    service.define("work", json!({"transform": {"kind": "worker"}})).await;
    service.inbox.gate.hold(Point::Arrived);
    assert!(send(&service, 0).await);
    service.inbox.gate.holds(1).await;
    service.redis.written().await;
    service.redis.kill();

    let pod = &service.pod;
    assert!(!send(&service, 1).await);
    let raw = service.post("/v1/destinations/erp/messages", "text/plain", "x");
    is_temporary(&said(raw).await);
    is_temporary(&said(service.put("crm", &json!({"url": service.receiver.url()}))).await);
    is_temporary(&said(service.delete("/v1/destinations/work")).await);
    is_temporary(&said(client().get(pod.url("/v1/destinations/erp/stats"))).await);
    let (status, text) = said_text(&service, "/readyz").await;
    assert!(status == 503 && text.starts_with("redis_unavailable: "), "{status} {text}");
    is_temporary(&said(service.json("/v1/leases", &json!({"destinations": ["work"]}))).await);
    // The pod cannot know whether the destination exists.
    is_temporary(&said(service.post("/v1/destinations/nowhere/messages", "", "x")).await);
    assert_eq!(said(client().get(pod.url("/healthz"))).await.status, 200);
    let lines = [2, 3].map(|n| json!({"destinations": ["erp"], "body": n}).to_string());
    let batch = service.post(MESSAGES, "application/x-ndjson", lines.join("\n"));
    let answer = batch.send().await.unwrap();
    let is_told = answer.headers().contains_key("retry-after");
    assert_eq!((answer.status().as_u16(), is_told), (503, true), "nothing was stored");
    let text = answer.text().await.unwrap();
    assert_eq!(text.matches("\"status\":503").count(), 2, "{text}");
    let mut stream = TcpStream::connect(pod.addresses.tcp(0)).await.unwrap();
    stream.write_all(b"four\nfive\n").await.unwrap();
    let mut told = String::new();
    within("the connection is closed", stream.read_to_string(&mut told)).await.unwrap();
    assert_eq!(told.lines().filter(|line| line.starts_with("ERR ")).count(), 2, "{told:?}");

    service.redis.restart().await;
    consistent(&service, 1).await;
    // The pod recovers on its own.
    eventually("messages are taken again", async || match send(&service, 1).await {
        true => Ok(()),
        false => Err("not yet".to_owned()),
    })
    .await;
    service.inbox.gate.let_go();
    drained_to(&service, 2).await;
}

#[tokio::test]
async fn message_is_stored_once_or_never_if_redis_dies_under_load() {
    const COUNT: usize = 600;
    let service = Service::start().await;
    service.inbox.gate.hold(Point::Arrived);
    // Half of the messages are sent only after the kill, so that it always happens midway.
    let killed = CancellationToken::new();
    let sends = (0..COUNT).map(|number| {
        let (service, killed) = (&service, &killed);
        async move {
            if number >= COUNT / 2 {
                killed.cancelled().await;
            }
            send(service, number).await
        }
    });
    let mut redis = service.redis.connection().await;
    // Kill Redis by its process id, because `service` is borrowed meanwhile.
    let id = rustix::process::Pid::from_raw(service.redis.pid() as i32).unwrap();
    let kill = async {
        eventually("some are stored", async || {
            let last = field(&mut redis, "last").await;
            if last >= 50 { Ok(()) } else { Err(format!("{last}")) }
        })
        .await;
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        killed.cancel();
    };
    let (first, ()) = tokio::join!(join_all(sends), kill);
    let promised = first.iter().filter(|is_promised| **is_promised).count();
    assert!((1..COUNT).contains(&promised), "{promised} of {COUNT} were promised");
    service.redis.written().await;
    service.redis.kill();
    service.redis.restart().await;
    consistent(&service, promised as u64).await;
    for number in 0..COUNT {
        eventually("the message is taken", async || match send(&service, number).await {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        })
        .await;
    }
    service.inbox.gate.let_go();
    drained_to(&service, COUNT).await;
}

async fn field(redis: &mut ::redis::aio::MultiplexedConnection, name: &str) -> u64 {
    let key = key_of_erp(redis).await;
    let found: Option<u64> =
        ::redis::cmd("HGET").arg(key).arg(name).query_async(redis).await.unwrap();
    found.unwrap_or_default()
}

async fn key_of_erp(redis: &mut ::redis::aio::MultiplexedConnection) -> String {
    let mut found: Vec<String> =
        ::redis::cmd("KEYS").arg("reseq:*:d:erp").query_async(redis).await.unwrap();
    found.pop().expect("erp is defined")
}

/// Checks that sequences, lanes and records agree, and that there are at least `promised` messages.
async fn consistent(service: &Service, promised: u64) {
    let mut redis = service.redis.connection().await;
    let (last, settled) = (field(&mut redis, "last").await, field(&mut redis, "settled").await);
    let key = key_of_erp(&mut redis).await;
    let mut pipe = ::redis::pipe();
    pipe.zcard(format!("{key}:in-progress")).zcard(format!("{key}:ready"));
    pipe.hlen(format!("{key}:messages"));
    let (in_progress, ready, records): (u64, u64, u64) =
        pipe.query_async(&mut redis).await.unwrap();
    assert!(last >= promised, "{last} of {promised}");
    assert_eq!((in_progress, ready, records), (last - settled, last - settled, last - settled));
}

/// Waits until all messages are delivered, and checks that each number arrived once.
async fn drained_to(service: &Service, count: usize) {
    service.inbox.journal.reaches(count).await;
    forgotten(&mut service.redis.connection().await).await;
    let all = service.inbox.journal.all();
    let mut numbers: Vec<Value> =
        all.iter().map(|one| serde_json::from_str(&one.body).unwrap()).collect();
    numbers.sort_by_key(Value::as_u64);
    numbers.dedup();
    assert_eq!(numbers, (0..count).map(|number| json!(number)).collect::<Vec<_>>());
    // Messages accepted but not settled when Redis died are repeated, but not above the last position.
    let places =
        all.iter().map(|one| one.headers.clone().map(|said| (said.epoch, said.sequence)).unwrap());
    let mut firsts = Vec::new();
    for position in places {
        if firsts.last().is_none_or(|last| *last < position) {
            firsts.push(position);
        } else {
            assert!(firsts.contains(&position), "{position:?} comes late");
        }
    }
    assert_eq!(firsts.len(), count, "{firsts:?}");
}

#[tokio::test]
async fn what_may_have_been_stored_is_not_called_aborted() {
    let service = Service::start().await;
    // Redis must have the script that the batch calls.
    let line = json!({"destinations": ["erp"], "body": 0}).to_string();
    let sent = service.post(MESSAGES, "application/x-ndjson", line).send().await.unwrap();
    assert_eq!(sent.status(), 202);
    let id = rustix::process::Pid::from_raw(service.redis.pid() as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    let lines = [1, 2].map(|n| json!({"destinations": ["erp"], "body": n}).to_string());
    let batch = service.post(MESSAGES, "application/x-ndjson", lines.join("\n"));
    let text = batch.send().await.unwrap().text().await.unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    // Both messages were in one call, which Redis runs now.
    assert_eq!(text.matches("\"not_confirmed\"").count(), 2, "{text}");
    drained_to(&service, 3).await;
}

#[tokio::test]
async fn refused_writes_are_named_by_the_sentence_of_redis() {
    let service = Service::start().await;
    service.inbox.gate.hold(Point::Arrived);
    assert!(send(&service, 0).await);
    service.inbox.gate.holds(1).await;
    let port_of_nobody = "1";
    for (sentence, refuse, accept) in [
        (
            "NOREPLICAS",
            vec!["CONFIG", "SET", "min-replicas-to-write", "1"],
            vec!["CONFIG", "SET", "min-replicas-to-write", "0"],
        ),
        (
            "READONLY",
            vec!["REPLICAOF", "127.0.0.1", port_of_nobody],
            vec!["REPLICAOF", "NO", "ONE"],
        ),
    ] {
        service.redis.ask::<()>(&refuse).await.unwrap();
        let sent = said(service.post("/v1/destinations/erp/messages", "text/plain", "x")).await;
        sent.is_problem(503, "redis_refuses_writes", sentence);
        let paused = service.json("/v1/destinations/erp/pause", &json!({"what": "delivery"}));
        said(paused).await.is_problem(503, "redis_refuses_writes", sentence);
        let (status, text) = said_text(&service, "/readyz").await;
        let is_named = text.starts_with("redis_refuses_writes: ") && text.contains(sentence);
        assert!(status == 503 && is_named, "{status} {text}");
        let why = said(service.get("/v1/destinations/erp/why")).await.body;
        assert_eq!(why["cause"], "redis_refuses_writes", "{why}");
        assert!(why["explanation"].as_str().unwrap().contains(sentence), "{why}");
        let doctor = said(service.get("/v1/doctor")).await.body;
        let findings = doctor["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["check"] == "redis_writes").unwrap();
        assert!(found["summary"].as_str().unwrap().contains(sentence), "{found}");
        eventually("the log names it", async || {
            let log = service.pod.log();
            let wanted = format!("Redis refuses writes: {sentence}");
            if log.contains(&wanted) { Ok(()) } else { Err(log) }
        })
        .await;
        service.redis.ask::<()>(&accept).await.unwrap();
        eventually("the pod is ready", async || {
            let said = said_text(&service, "/readyz").await;
            if said.0 == 200 { Ok(()) } else { Err(said.1) }
        })
        .await;
        eventually("the log says that it is over", async || {
            let log = service.pod.log();
            let lines = |text: &str| log.matches(&format!("store::rights: {text}")).count();
            let (refused, over) =
                (lines("Redis refuses writes: "), lines("Redis accepts writes again"));
            if refused == over { Ok(()) } else { Err(format!("{refused} and {over}: {log}")) }
        })
        .await;
    }
    service.inbox.gate.let_go();
    eventually("messages are taken again", async || match send(&service, 1).await {
        true => Ok(()),
        false => Err("not yet".to_owned()),
    })
    .await;
    drained_to(&service, 2).await;
}

async fn said_text(service: &Service, path: &str) -> (u16, String) {
    let answer = service.get(path).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn half_open_connections_cost_one_send_not_two() {
    let redis = TestRedis::start().await;
    let proxy = Proxy::unix(redis.url());
    let settings = Settings {
        redis: "timeout_ms = 1000".into(),
        ingest: "retry_ms = 300".into(),
        ..Settings::new(&proxy.url)
    }
    .destination("erp", "url = \"http://127.0.0.1:9/\"");
    let pod = Pod::start("reseq", "ingest", &settings).await;
    let sent = async || {
        let request = client().post(pod.url("/v1/destinations/erp/messages")).body("x");
        request.send().await.unwrap().status().as_u16()
    };
    // After these requests, each connection has been used.
    for _ in 0..16 {
        assert_eq!(sent().await, 202);
    }
    proxy.forget();
    assert_eq!(sent().await, 503, "the network has forgotten the connection");
    assert_eq!(sent().await, 202, "the next send has another connection");
}
