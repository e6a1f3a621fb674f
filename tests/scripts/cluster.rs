//! Runs the scripts on a real Redis Cluster of three primaries, where all keys of a call must be in one
//! slot. And on one Redis under MONITOR, to check that KEYS declares every key that a script touches.

use crate::scripts;
use crate::store_life;
use crate::support;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use domain::{DeliveryKind, Destination, DestinationName, Ordering, Processing, TransformKind};
use futures::StreamExt;
use redis::{FromRedisValue, aio::MultiplexedConnection};
use scripts::{Arrival as Incoming, Call, Calls, LONG, RECORD};
use store::{Keys, Store, scripts::Scripts};
use support::redis::{TestCluster, TestRedis};

/// The number of destinations per primary that go through all calls.
const LIVES: usize = 2;

#[tokio::test]
async fn every_transition_runs_on_a_cluster_of_three_primaries() {
    let cluster = TestCluster::start().await;
    let keys = Keys::new("reseq", 64);
    let mut connections = Vec::new();
    for node in &cluster.nodes {
        connections.push(node.connection().await);
    }
    let mut lives = [0; 3];
    for number in 0.. {
        let mut calls = Calls::new(&keys, &format!("destination-{number}"));
        calls.delivery = "push";
        let node = node_of(&cluster, &mut connections, &calls.keys.hash()).await;
        if lives[node] < LIVES {
            lives[node] += 1;
            let index = node_of(&cluster, &mut connections, &calls.index.hash()).await;
            // The node does not know a script before its first call.
            live(calls, &mut connections, node, index).await;
        }
        if lives == [LIVES; 3] {
            break;
        }
    }
}

/// The index of the node that serves a key.
async fn node_of(
    cluster: &TestCluster,
    connections: &mut [MultiplexedConnection],
    key: &str,
) -> usize {
    let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query_async(&mut connections[0]).await;
    let node = cluster.node_for_slot(slot.unwrap());
    cluster.nodes.iter().position(|other| std::ptr::eq(other, node)).unwrap()
}

async fn ask<T: FromRedisValue>(connection: &mut MultiplexedConnection, call: &Call) -> T {
    let answer = call.run(connection).await;
    let answer = answer.unwrap_or_else(|error| panic!("{}: {error}\n{call:?}", call.script));
    redis::from_redis_value(answer).unwrap_or_else(|error| panic!("{}: {error}", call.script))
}

/// The whole life of a destination and of its messages.
async fn live(
    mut calls: Calls,
    connections: &mut [MultiplexedConnection],
    node: usize,
    index: usize,
) {
    ask::<u64>(&mut connections[node], &calls.init_epoch()).await;
    type Defined = (String, bool, bool, String, String);
    let (version, changed, created, ..): Defined =
        ask(&mut connections[node], &calls.define("{}")).await;
    assert!(changed && created);
    calls.version = version;
    let noted = format!("{} - {{}}", calls.version);
    assert_eq!(ask::<u64>(&mut connections[index], &calls.index(&noted)).await, 1);
    let at = &mut connections[node];
    let (epoch, wait): (String, u64) = ask(at, &calls.acquire_partition("me")).await;
    assert_eq!(wait, 0, "it was founded, so nothing was forgotten");
    calls.epoch = epoch;

    // Six messages in three lanes, and the last message again.
    let lanes = ["a", "b", "{c}"];
    let arrival = |lane, seen| Incoming::new(lane, seen, RECORD);
    let mut arrivals = Vec::from([1, 2, 3, 1, 2].map(|lane| arrival(lane, "")));
    arrivals.extend([
        arrival(3, "1:digest first"),
        arrival(3, "1:digest again"),
        arrival(1, "2:other x"),
    ]);
    let ingest = calls.ingest(&lanes, &["once", "{twice}"], &arrivals);
    type Ingested = (u64, (u64, String, u64, String, String));
    let (first, duplicate): Ingested = ask(at, &ingest).await;
    let expected = (7, "duplicate".to_owned(), 6, calls.epoch.clone(), "first".to_owned());
    assert_eq!((first, duplicate), (1, expected.clone()));
    let again: Ingested = ask(at, &ingest).await;
    assert_eq!(again, (1, expected), "the same call gets the same answer");

    let claimed: Vec<redis::Value> = ask(at, &calls.claim("s1", 6)).await;
    assert_eq!(claimed.len(), 1 + 6 * 2, "a deadline and six messages");
    let extended: Vec<String> = ask(at, &calls.extend("s1", &[1, 2, 3])).await;
    assert_eq!(extended[1..], ["ok", "ok", "ok"]);
    let fail = calls.fail("s1", "a", &[(1, "0"), (2, LONG), (3, "0")]);
    let failed: Vec<String> = ask(at, &fail).await;
    assert_eq!(failed, ["ok", "ok", "ok"]);
    assert_eq!(ask::<Vec<String>>(at, &calls.requeue("s1", &[4])).await, ["ok"]);

    // A dead processor's lease, and an expired backoff.
    let partition = &calls.keys.partition;
    let (lease, delay) = (calls.member(5, "s1"), format!("{}/2", calls.name));
    for (key, member) in [(partition.leases(), &lease), (partition.delayed(), &delay)] {
        let past = redis::cmd("ZADD").arg(key).arg(1).arg(member).exec_async(at).await;
        past.unwrap();
    }
    // The caller has seen other scores than the stored ones, so the call must not move these members.
    let seen = |member: &str| [(member.to_owned(), 2)];
    let moved = calls.step_back([&seen(&lease), &seen(&delay), &seen("a")]);
    assert_eq!(ask::<u64>(at, &moved).await, 1);
    let reaped: (u64, u64, u64) = ask(at, &calls.reap(&[lease], &[delay])).await;
    assert_eq!(reaped, (1, 1, 0));
    let claimed: Vec<redis::Value> = ask(at, &calls.claim("s2", 100)).await;
    let with_attempts = 3 + 5 * 3;
    let what =
        "all but the sixth, which is held, and the fifth, which waits because its lease expired";
    assert_eq!(claimed.len(), with_attempts, "{what}");
    let done = calls.complete("s2", &lanes, &[(1, 1), (2, 2), (3, 3), (1, 4)]);
    assert!(ask::<Vec<String>>(at, &done).await.is_empty(), "there is no exception");

    let repaired: Vec<redis::Value> =
        ask(at, &calls.repair(&lanes, &[(1, 1), (2, 2), (3, 3), (1, 4)])).await;
    assert_eq!(repaired[0], redis::Value::Array(Vec::new()), "there is nothing to repair");
    let heads = release(at, &calls, &[("a", 0, 1), ("b", 0, 9), ("{c}", 0, 9)]).await;
    assert_eq!(heads, ["1", "2", "3"]);
    ask::<u64>(at, &calls.postpone("me", "a", 1, "0")).await;
    assert_eq!(release(at, &calls, &[("a", 0, 1)]).await, ["1"]);
    consume(at, &calls).await;
    set_aside(at, &mut calls).await;
    let heads = release(at, &calls, &[("a", 4, 9), ("b", 2, 9), ("{c}", 3, 0)]).await;
    assert!(heads.is_empty(), "the next are not ready: {heads:?}");
    assert_eq!(ask::<(u64, u64)>(at, &calls.resign_partition("me")).await.0, 1);
    note_operations(at, &calls).await;

    let (_, pending): (String, u64) = ask(at, &calls.remove()).await;
    assert_eq!(pending, 3);
    let leases = [calls.member(5, "s2"), calls.member(6, "s1"), calls.member(7, "s2")];
    let batch = calls.delete_destination_batch(&lanes, &[5, 6, 7], &leases, &[]);
    assert_eq!(ask::<u64>(at, &batch).await, 3);
    let operations = OPERATIONS.map(|id| calls.keys.operation(id));
    assert_eq!(ask::<u64>(at, &calls.delete_keys(&operations)).await, 0);
    let forgotten: u64 = ask(at, &calls.forget_destination()).await;
    assert!(forgotten >= calls.epoch.parse().unwrap());
    let of_partition = format!("{}*", calls.keys.hash());
    let left: Vec<String> = redis::cmd("KEYS").arg(of_partition).query_async(at).await.unwrap();
    assert!(
        left.iter().all(|key| key.contains(":idempotency:") || key.contains(":result:")),
        "{left:?}"
    );
    assert_eq!(ask::<u64>(&mut connections[index], &calls.index("")).await, 1);
}

/// Bulk operations, one more than Redis keeps.
const OPERATIONS: [&str; 3] = ["first", "second", "{third}"];

/// Notes bulk operations. The process that runs one learns that it was cancelled.
async fn note_operations(at: &mut MultiplexedConnection, calls: &Calls) {
    for id in OPERATIONS {
        assert_eq!(ask::<u8>(at, &calls.note_operation(id, "{}")).await, 0, "nobody cancelled it");
    }
    let cancelled: Option<String> = ask(at, &calls.cancel_operation("second")).await;
    assert_eq!(cancelled.as_deref(), Some("{}"));
    assert_eq!(ask::<u8>(at, &calls.note_operation("second", "{}")).await, 1);
    let unknown: Option<String> = ask(at, &calls.cancel_operation("fourth")).await;
    assert_eq!(unknown, None, "nothing is made of what nobody runs");
    let key = calls.keys.partition.operations();
    let kept: Vec<String> =
        redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).query_async(at).await.unwrap();
    assert_eq!(kept.len(), 2, "{kept:?}");
    let left = calls.keys.operation("fourth");
    assert_eq!(redis::cmd("EXISTS").arg(left).query_async::<u8>(at).await.unwrap(), 0);
}

/// The first sequence of each releasable run.
async fn release(
    at: &mut MultiplexedConnection,
    calls: &Calls,
    lanes: &[(&str, u64, usize)],
) -> Vec<String> {
    let answer: Vec<redis::Value> = ask(at, &calls.release("me", lanes)).await;
    let runs = answer.into_iter().skip(1).map(|run| redis::from_redis_value(run).unwrap());
    runs.filter_map(|run: Vec<redis::Value>| {
        let first = run.get(2)?.clone();
        redis::from_redis_value(first).unwrap()
    })
    .collect()
}

/// A consumer takes the head of another destination in the same partition, gives it back, takes it again and accepts it.
async fn consume(at: &mut MultiplexedConnection, calls: &Calls) {
    let keys = Keys::new("reseq", 64);
    let same = |name: &String| {
        let name: DestinationName = name.parse().unwrap();
        keys.partition_of(&name) == keys.partition_of(&calls.name)
    };
    let name = (0..).map(|n| format!("consumed-{n}")).find(same).unwrap();
    let mut taken = Calls::new(&keys, &name);
    (taken.epoch, taken.stand) = (calls.epoch.clone(), "ready");
    // Both have the same caller, so use other call numbers.
    taken.number_from(1000);
    type Defined = (String, u8, u8, String, String);
    taken.version = ask::<Defined>(at, &taken.define("{}")).await.0;
    let _: redis::Value =
        ask(at, &taken.ingest(&["a"], &[], &[Incoming::new(1, "", RECORD)])).await;
    for (secret, verbs) in [("s3", ["extend", "requeue"]), ("s4", ["extend", "accept"])] {
        let messages: Vec<redis::Value> = ask(at, &taken.consume(secret, 9, &["a"])).await;
        assert_eq!(messages.len(), 1 + 4, "a deadline and a message");
        for what in verbs {
            let answer: Vec<String> = ask(at, &taken.acknowledge(what, &[("a", secret, 1)])).await;
            assert_eq!(answer[1..], ["ok"]);
        }
    }
    let run: Vec<redis::Value> = ask(at, &taken.look("me", "a", 0, 9)).await;
    assert_eq!(redis::from_redis_value::<Vec<redis::Value>>(run[1].clone()).unwrap().len(), 3 + 2);
    let _: redis::Value = ask(at, &taken.look("me", "a", 1, 0)).await;
    let _: redis::Value = ask(at, &taken.remove()).await;
    let _: redis::Value = ask(at, &taken.forget_destination()).await;
}

/// Halts and retries the head of lane `a`, and makes it a tombstone. Makes the head of `b` a dead letter.
/// Requests to withdraw the sixth message when its attempt has failed. Pauses the destination.
async fn set_aside(at: &mut MultiplexedConnection, calls: &mut Calls) {
    assert_eq!(ask::<u64>(at, &calls.halt("me", "a", 1)).await, 1);
    assert!(release(at, calls, &[("a", 0, 1)]).await.is_empty(), "it is halted");
    assert_eq!(ask::<String>(at, &calls.retry("a", 1, RECORD)).await, "ready");
    assert_eq!(release(at, calls, &[("a", 0, 1)]).await, ["1"]);
    let lanes = ["a", "b", "{c}"];
    let cancelled = calls.withdraw("c", "", &lanes, &[(1, 1), (3, 6)]);
    assert_eq!(ask::<Vec<String>>(at, &cancelled).await, ["withdrawing"; 2]);
    let skipped = calls.withdraw("s", "me", &lanes, &[(1, 1), (2, 2)]);
    assert_eq!(ask::<Vec<String>>(at, &skipped).await, ["done"; 2]);
    assert_eq!(ask::<u64>(at, &calls.discard(&[1])).await, 1);
    assert_eq!(ask::<u64>(at, &calls.expire(LONG)).await, 0, "it is too young");
    assert_eq!(ask::<u64>(at, &calls.expire("0")).await, 1);
    let (version, _, changed, _, _): (String, String, bool, String, String) =
        ask(at, &calls.pause("delivery")).await;
    assert!(changed);
    calls.version = version;
}

#[tokio::test]
async fn every_key_that_a_script_touches_is_declared_by_the_store() {
    let redis = TestRedis::start_with_clock().await;
    let settings =
        config::Redis { url: redis.url().to_owned(), partitions: 4, ..config::Redis::default() };
    let long = Duration::from_millis(LONG.parse().unwrap());
    let (store, _) = Store::open(&settings, long).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let monitor = client.get_async_monitor().await.unwrap();

    let mut connection = redis.connection().await;
    let mut name_of = BTreeMap::new();
    for transition in Scripts::new().all() {
        name_of.insert(transition.script.get_hash().to_owned(), transition.name);
    }
    for (name, ordering, processing, kind) in [
        ("alpha", Ordering::Key, Processing::Parallel, TransformKind::Http),
        ("beta", Ordering::Destination, Processing::Parallel, TransformKind::Worker),
        ("gamma", Ordering::Key, Processing::Parallel, TransformKind::None),
        ("delta", Ordering::None, Processing::Parallel, TransformKind::Http),
        ("epsilon", Ordering::Key, Processing::Serial, TransformKind::Http),
        ("zeta", Ordering::Destination, Processing::Parallel, TransformKind::None),
    ] {
        let mut destination = Destination::new(name.parse().unwrap(), "http://127.0.0.1:9/");
        (destination.ordering, destination.processing) = (ordering, processing);
        destination.transform.kind = kind;
        if name == "gamma" {
            (destination.delivery.kind, destination.url) = (DeliveryKind::Pull, None);
        }
        if ordering == Ordering::None {
            destination.idempotency_window_ms = 0;
        }
        store_life::through_the_store(&store, &mut connection, destination, long).await;
    }
    // The clock steps back while a message is delayed.
    let all: Vec<u16> = (0..settings.partitions).collect();
    store.recover_owned(&all).await.unwrap();
    let delayed = store.keys().partition(0).delayed();
    let later =
        redis::cmd("ZADD").arg(delayed).arg(9_000_000_000_000_u64).arg("alpha/1").to_owned();
    later.exec_async(&mut connection).await.unwrap();
    redis.clock().step(Duration::from_secs(600), false);
    store.recover_owned(&all).await.unwrap();
    store.audit("{}", 10).await.unwrap();
    store.end_session("one").await.unwrap();
    redis::cmd("ECHO").arg("the end").exec_async(&mut connection).await.unwrap();

    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut touched = 0;
    let (mut script, mut declared) = ("", Vec::new());
    let mut lines = monitor.into_on_message::<String>();
    while let Some(line) = lines.next().await {
        let words = words_of(&line);
        match words[0].to_ascii_lowercase().as_str() {
            "echo" => break,
            "evalsha" => {
                let count: usize = words[2].parse().unwrap();
                script = name_of[&words[1]];
                declared = words[3..].to_vec();
                // Channels to which all pods subscribe have no slot, so they are arguments.
                declared.truncate(
                    if matches!(script, "index" | "token" | "topic" | "end_session") {
                        usize::MAX
                    } else {
                        count
                    },
                );
                seen.insert(script);
            }
            // The script for atomic reads declares its keys too.
            "eval" if words[1].contains("flags=no-writes") => {
                let count: usize = words[2].parse().unwrap();
                (script, declared) = ("a read", words[3..3 + count].to_vec());
            }
            _ if !line.contains(" lua] ") => {}
            "time" | "info" => {}
            command => {
                let keys = if command == "unlink" || command == "del" {
                    &words[1..]
                } else {
                    &words[1..2]
                };
                touched += keys.len();
                for key in keys {
                    assert!(declared.contains(key), "{script} touches {key}, undeclared: {line}");
                }
            }
        }
    }
    assert!(touched > 200, "{touched} keys were touched");
    let all: BTreeSet<&str> = name_of.values().copied().collect();
    assert_eq!(seen, all, "each script ran");
}

/// The words of a line of MONITOR: `1790000000.1 [0 lua] "ZADD" "key" …`. Bytes stay escaped.
fn words_of(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.split_once("] ").map_or("", |(_, rest)| rest);
    while let Some(start) = rest.find('"') {
        let mut word = String::new();
        let mut characters = rest[start + 1..].char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = start + 2 + at;
                    break;
                }
                '\\' => word.extend(characters.next().map(|(_, escaped)| escaped)),
                other => word.push(other),
            }
        }
        words.push(word);
        rest = &rest[end..];
    }
    words
}
