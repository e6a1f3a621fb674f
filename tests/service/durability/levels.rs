//! Tests the levels of durability: the messages that Reseq confirms, and those that it refuses to confirm.

use std::sync::Arc;

use domain::Durability;
use redis::aio::MultiplexedConnection;
use reqwest::StatusCode;
use serde_json::{Value, json};
use store::Keys;

use super::{
    servers::{Door, Frozen, ask, caught_up, follow, primary_with, promote, server, server_with},
    world::{LONG, World, open},
};
use crate::scripts::{Arrival, Call, Calls, RECORD};
use crate::support::{
    pods::{Pod, Settings, client, refused_start},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

/// A pod with all roles, and one destination for each of these levels, named after it.
async fn pod(redis: &TestRedis, replicas: usize, levels: &[&str]) -> Pod {
    let mut settings = Settings {
        redis: format!("replicas = {replicas}\ntimeout_ms = 2000"),
        ingest: "retry_ms = 500".into(),
        ..Settings::new(redis.url())
    };
    for level in levels {
        let fields = format!("url = \"http://127.0.0.1:9/\"\ndurability = \"{level}\"");
        settings = settings.destination(level, &fields);
    }
    Pod::start("reseq", "ingest,processor,sender", &settings).await
}

/// Sends one message under an idempotency key. Returns the status and the answer.
async fn send(pod: &Pod, destinations: &[&str], key: &str) -> (StatusCode, Value) {
    let body = json!({"destinations": destinations, "body": key, "idempotency_key": key});
    let request = client().post(pod.url("/v1/messages")).header("content-type", "application/json");
    let answer = request.body(body.to_string()).send().await.unwrap();
    (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

async fn put(pod: &Pod, name: &str, durability: &str) -> (StatusCode, Value) {
    let body = json!({"url": "http://127.0.0.1:9/", "durability": durability});
    let request = client().put(pod.url(&format!("/v1/destinations/{name}")));
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await.unwrap();
    (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn replicated_waits_for_all_replicas_and_a_duplicate_does_too() {
    let (redis, replicas) = primary_with(2).await;
    let pod = pod(&redis, 2, &["replicated", "memory"]).await;
    let (status, said) = send(&pod, &["replicated", "memory"], "one").await;
    assert_eq!(status, 202, "{said}");
    let levels: Vec<&Value> = (0..2).map(|at| &said["deliveries"][at]["durability"]).collect();
    assert_eq!(levels, ["replicated", "memory"]);

    let frozen = Frozen::new(&replicas[1]);
    // Reseq cannot confirm a new message, nor a duplicate of a message confirmed before.
    for key in ["two", "one"] {
        let (status, said) = send(&pod, &["replicated"], key).await;
        assert_eq!(
            (status, &said["code"]),
            (StatusCode::SERVICE_UNAVAILABLE, &json!("not_confirmed"))
        );
    }
    // Destinations with other levels do not wait. The answer lists the confirmed deliveries.
    let (status, said) = send(&pod, &["memory"], "two").await;
    assert_eq!((status, &said["deliveries"][0]["sequence"]), (StatusCode::ACCEPTED, &json!(2)));
    let (status, said) = send(&pod, &["memory", "replicated"], "three").await;
    assert_eq!((status, &said["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("not_confirmed")));
    assert_eq!(said["deliveries"].as_array().unwrap().len(), 1, "{said}");
    // A refusal promises nothing, so it needs no confirmation.
    let other = json!({"destinations": ["replicated"], "body": "other", "idempotency_key": "one"});
    let request = client().post(pod.url("/v1/messages")).header("content-type", "application/json");
    let answer = request.body(other.to_string()).send().await.unwrap();
    assert_eq!(answer.status(), 422);

    drop(frozen);
    let (status, said) = eventually("the replica is back", async || {
        let (status, said) = send(&pod, &["replicated"], "two").await;
        if status == 202 { Ok((status, said)) } else { Err(said.to_string()) }
    })
    .await;
    let delivery = &said["deliveries"][0];
    let expected = (json!(2), json!(true), json!("replicated"));
    let found = ["sequence", "duplicate", "durability"].map(|field| delivery[field].clone());
    assert_eq!((status, found.into()), (StatusCode::ACCEPTED, expected));
}

#[tokio::test]
async fn failover_to_lagging_replica_keeps_what_was_replicated() {
    let (primary, replicas) = primary_with(1).await;
    let (lagging, door) = (server().await, Door::to(&primary).await);
    follow(&lagging, door.address).await;
    let store = open(primary.url(), 2, LONG).await;
    let mut world = World::with(store, Durability::Replicated).await;
    for _ in 0..20 {
        world.stamp().await;
    }
    // From now on `lagging` gets no data: new messages are only on the primary and one replica.
    door.close();
    let mut unsure = World::with(open(primary.url(), 1, LONG).await, Durability::Replicated).await;
    for _ in 0..5 {
        unsure.stamp().await;
    }
    caught_up(&replicas[0], &primary).await;
    drop(primary);
    promote(&lagging).await;
    let key = "reseq:{p00}:d:erp:messages";
    let kept: Vec<u64> = ask(&mut lagging.connection().await, &["HKEYS", key]).await;
    let lost = |position: &&domain::Position| !kept.contains(&position.sequence);
    assert_eq!(world.places.iter().filter(lost).count(), 0, "{kept:?}");
    assert_eq!(unsure.places.iter().filter(lost).count(), 5, "it lagged: {kept:?}");
}

/// WAIT counts the writes of its own connection, and returns at once if there are none.
#[tokio::test]
async fn every_call_that_promises_something_writes_something() {
    let (redis, _replicas) = primary_with(1).await;
    let mut at = redis.connection().await;
    let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
    let (version, ..): (String, u8, u8, String, String) = run(&mut at, &calls.define("{}")).await;
    calls.version = version;
    (calls.epoch, _) = run::<(String, u64)>(&mut at, &calls.acquire_partition("me")).await;
    let once = [Arrival::new(1, "1:digest first", RECORD)];
    let first = calls.ingest(&["a"], &["once"], &once);
    let second = calls.ingest(&["a"], &["once"], &once);
    let written = async || -> u64 {
        super::servers::info(&redis, "master_repl_offset").await.parse().unwrap()
    };
    let mut last = written().await;
    // A new call; its repeat; a duplicate; the duplicate's repeat; and a repeat of the first call
    // after a later call, which is refused as late.
    for (call, is_late) in
        [(&first, false), (&first, false), (&second, false), (&second, false), (&first, true)]
    {
        let answer = call.run(&mut redis.connection().await).await;
        assert_eq!(answer.is_err(), is_late, "{answer:?}");
        let now = written().await;
        // The server pings its replicas now and then. A ping is shorter than the writes of a call.
        assert!(is_late || now >= last + 60, "{now} after {last}");
        last = now;
    }
}

async fn run<T: redis::FromRedisValue>(at: &mut MultiplexedConnection, call: &Call) -> T {
    redis::from_redis_value(call.run(at).await.unwrap()).unwrap()
}

#[tokio::test]
async fn fsynced_needs_a_server_that_syncs_before_it_answers() {
    let redis = server_with(&["--appendfsync", "always"]).await;
    let pod = pod(&redis, 0, &["fsynced"]).await;
    let (status, said) = send(&pod, &["fsynced"], "one").await;
    assert_eq!(
        (status, &said["deliveries"][0]["durability"]),
        (StatusCode::ACCEPTED, &json!("fsynced"))
    );
    assert_eq!(put(&pod, "other", "fsynced").await.0, 201);

    // An operator reconfigures the server: Reseq must not promise more than the server can keep.
    let mut at = redis.connection().await;
    ask::<()>(&mut at, &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    let (status, said) = send(&pod, &["fsynced"], "two").await;
    assert_eq!(status, 503, "{said}");
    assert_eq!(said["code"], "cannot_confirm", "{said}");
    let (status, said) = put(&pod, "third", "fsynced").await;
    assert_eq!(
        (status, &said["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_field")),
        "{said}"
    );
    let detail = said["detail"].as_str().unwrap();
    assert!(detail.contains("appendfsync always") && detail.contains("7.2"), "{detail}");
    ask::<()>(&mut at, &["CONFIG", "SET", "appendfsync", "always"]).await;
    let (status, said) = send(&pod, &["fsynced"], "two").await;
    assert_eq!((status, &said["deliveries"][0]["sequence"]), (StatusCode::ACCEPTED, &json!(2)));
}

#[tokio::test]
async fn fsynced_needs_syncs_while_saving_and_a_complete_file() {
    let redis = server_with(&["--appendfsync", "always"]).await;
    let pod = pod(&redis, 0, &["fsynced"]).await;
    let mut at = redis.connection().await;
    for number in 0..200 {
        ask::<()>(&mut at, &["SET", &format!("filler:{number}"), "x"]).await;
    }
    // A save or a rewrite lasts.
    ask::<()>(&mut at, &["CONFIG", "SET", "rdb-key-save-delay", "100000"]).await;
    let sent = async |key: &str, expected: &str| {
        let (status, said) = send(&pod, &["fsynced"], key).await;
        match expected {
            "" => assert_eq!(
                (status, &said["deliveries"][0]["durability"]),
                (StatusCode::ACCEPTED, &json!("fsynced"))
            ),
            named => {
                assert_eq!(
                    (status, &said["code"]),
                    (StatusCode::SERVICE_UNAVAILABLE, &json!("cannot_confirm"))
                );
                assert!(said["detail"].as_str().unwrap().contains(named), "{said}");
            }
        }
    };
    sent("one", "").await;
    ask::<()>(&mut at, &["CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"]).await;
    sent("two", "no-appendfsync-on-rewrite").await;
    let doctor = client().get(pod.url("/v1/doctor")).send().await.unwrap().text().await.unwrap();
    assert!(doctor.contains("no-appendfsync-on-rewrite"), "{doctor}");
    ask::<()>(&mut at, &["CONFIG", "SET", "no-appendfsync-on-rewrite", "no"]).await;
    sent("two", "").await;

    // A rewrite in between changes nothing: the earlier file counts until the rewrite ends.
    ask::<String>(&mut at, &["BGREWRITEAOF"]).await;
    sent("three", "").await;
    ask::<()>(&mut at, &["CONFIG", "SET", "rdb-key-save-delay", "0"]).await;
    let rewritten = async || {
        let now = redis.info("aof_rewrite_in_progress").await;
        if now == "0" { Ok(()) } else { Err(now) }
    };
    // The delay applies to the running child, so end it.
    ask::<()>(&mut at, &["CONFIG", "SET", "appendonly", "no"]).await;
    eventually("the rewrite has ended", rewritten).await;
    ask::<()>(&mut at, &["CONFIG", "SET", "rdb-key-save-delay", "100000"]).await;
    ask::<()>(&mut at, &["CONFIG", "SET", "appendonly", "yes"]).await;
    sent("four", "first time").await;
    ask::<()>(&mut at, &["CONFIG", "SET", "appendonly", "no"]).await;
    ask::<()>(&mut at, &["CONFIG", "SET", "rdb-key-save-delay", "0"]).await;
    ask::<()>(&mut at, &["CONFIG", "SET", "appendonly", "yes"]).await;
    eventually("the first rewrite has ended", rewritten).await;
    sent("four", "").await;
}

#[tokio::test]
async fn impossible_durability_is_refused_with_what_to_change() {
    let redis = TestRedis::start().await;
    let pod = pod(&redis, 0, &["memory"]).await;
    for (level, change) in [("replicated", "redis.replicas"), ("fsynced", "appendonly yes")] {
        let (status, said) = put(&pod, "erp", level).await;
        assert_eq!((status, &said["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_field")));
        assert!(said["detail"].as_str().unwrap().contains(change), "{said}");
    }
    let (_, said) = put(&pod, "erp", "forever").await;
    assert!(said["detail"].as_str().unwrap().contains("durability"), "{said}");
    let config = format!(
        "[redis]\nurl = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[outgoing]\nallow = [\"127.0.0.1\"]\n\
         [[destination]]\nname = \"erp\"\nurl = \"http://127.0.0.1:9/\"\ndurability = \"replicated\"\n",
        redis.url()
    );
    let (status, said) = refused_start(&config).await;
    assert!(!status.success() && said.contains("redis.replicas"), "{said}");
}

/// The receiver gets the same messages at every level.
#[tokio::test]
async fn messages_of_each_level_are_delivered() {
    let (redis, _replicas) = primary_with(1).await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let pod = pod(&redis, 1, &["replicated"]).await;
    let body = json!({"url": receiver.url(), "durability": "replicated"});
    let request = client().put(pod.url("/v1/destinations/erp"));
    let request = request.header("content-type", "application/json").body(body.to_string());
    assert_eq!(request.send().await.unwrap().status(), 201);
    for key in ["one", "two", "three"] {
        assert_eq!(send(&pod, &["erp"], key).await.0, 202);
    }
    inbox.journal.reaches(3).await;
}
