//! The scripts on a real Redis Cluster of three masters: all keys of a call are in one slot. And
//! on one Redis that is watched: every key that a script touches was declared in its KEYS.

mod scripts;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::StreamExt;
use redis::{FromRedisValue, aio::MultiplexedConnection};
use reseq::{
    config,
    domain::{Arrival, Body, Destination, Message, Ordering, Stamped, TransformKind},
    store::{
        Catalog, Claimed, Claimers, Completion, Failed, Keys, Known, LaneRequest, Owner,
        OwnerToken, Status, Store, scripts::Scripts,
    },
};
use scripts::{Call, Calls, LONG};
use support::redis::{TestCluster, TestRedis};

/// Destinations whose life is gone through on each master.
const LIVES: usize = 2;

#[tokio::test]
async fn every_transition_runs_on_a_cluster_of_three_masters() {
    let cluster = TestCluster::start().await;
    let keys = Keys::new("reseq", 64);
    let mut connections = Vec::new();
    for node in &cluster.nodes {
        connections.push(node.connection().await);
    }
    let mut lives = [0; 3];
    for number in 0.. {
        let calls = Calls::new(&keys, &format!("destination-{number}"));
        let node = node_of(&cluster, &mut connections, &calls.keys.hash()).await;
        if lives[node] < LIVES {
            lives[node] += 1;
            let index = node_of(&cluster, &mut connections, &calls.index).await;
            // A new script is unknown at each node: the first call of each finds that out.
            live(calls, &mut connections, node, index).await;
        }
        if lives == [LIVES; 3] {
            break;
        }
    }
}

/// Which of the nodes serves a key.
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
    let (version, changed, created): (String, bool, bool) =
        ask(&mut connections[node], &calls.define("{}")).await;
    assert!(changed && created);
    calls.version = version;
    let noted = format!("{} {{}}", calls.version);
    assert_eq!(ask::<u64>(&mut connections[index], &calls.index(&noted)).await, 1);
    let at = &mut connections[node];
    let (epoch, wait): (String, u64) = ask(at, &calls.own("me")).await;
    assert_eq!(wait, 0);
    calls.epoch = epoch;

    // Six messages in three lanes, and the last of them again.
    let lanes = ["a", "b", "{c}"];
    let mut arrivals = Vec::from([1, 2, 3, 1, 2].map(|lane| (lane, "", "body")));
    arrivals.extend([
        (3, "1:digest first", "body"),
        (3, "1:digest again", "body"),
        (1, "2:other x", "body"),
    ]);
    let ingest = calls.ingest(&lanes, &["once", "{twice}"], &arrivals);
    type Ingested = (u64, (u64, String, u64, String, String));
    let (first, duplicate): Ingested = ask(at, &ingest).await;
    let expected = (7, "duplicate".to_owned(), 6, calls.epoch.clone(), "first".to_owned());
    assert_eq!((first, duplicate), (1, expected.clone()));
    let again: Ingested = ask(at, &ingest).await;
    assert_eq!(again, (1, expected), "the same call gets the same answer");

    let claimed: Vec<redis::Value> = ask(at, &calls.claim("s1", 6)).await;
    assert_eq!(claimed.len(), 7, "a deadline and six messages");
    let extended: Vec<String> = ask(at, &calls.extend("s1", &[1, 2, 3])).await;
    assert_eq!(extended[1..], ["ok", "ok", "ok"]);
    let failed: Vec<String> = ask(at, &calls.fail("s1", &[(1, "0"), (2, LONG), (3, "0")])).await;
    assert_eq!(failed, ["ok", "ok", "ok"]);
    assert_eq!(ask::<Vec<String>>(at, &calls.unclaim("s1", &[4])).await, ["ok"]);

    // A dead processor's lease, and a backoff that is over.
    let partition = &calls.keys.partition;
    let (lease, delay) = (calls.member(5, "s1"), format!("{}/2", calls.name));
    for (key, member) in [(partition.leases(), &lease), (partition.delayed(), &delay)] {
        let past = redis::cmd("ZADD").arg(key).arg(1).arg(member).exec_async(at).await;
        past.unwrap();
    }
    assert_eq!(ask::<(u64, u64)>(at, &calls.reap(&[lease], &[delay])).await, (1, 1));
    let claimed: Vec<redis::Value> = ask(at, &calls.claim("s2", 100)).await;
    assert_eq!(claimed.len(), 7, "all but the sixth, which is held, and the seventh");
    let done = calls.complete("s2", &lanes, &[(1, 1), (2, 2), (3, 3), (1, 4)]);
    assert_eq!(ask::<Vec<String>>(at, &done).await, ["ok"; 4]);

    type Run = (u64, String, u64, String);
    let runs: Vec<Vec<String>> =
        ask(at, &calls.release("me", &[("a", 0, 1), ("b", 0, 9), ("{c}", 0, 9)])).await;
    let heads: Vec<&str> = runs.iter().map(|run| run[2].as_str()).collect();
    assert_eq!(heads, ["1", "2", "3"]);
    ask::<u64>(at, &calls.postpone("me", "a", 1, "0")).await;
    let (wait, attempts, sequence, _): Run =
        ask::<Vec<Run>>(at, &calls.release("me", &[("a", 0, 1)])).await.remove(0);
    assert_eq!((wait, attempts.as_str(), sequence), (0, "1", 1));
    let runs: Vec<Vec<String>> =
        ask(at, &calls.release("me", &[("a", 4, 9), ("b", 2, 9), ("{c}", 3, 0)])).await;
    assert!(runs.iter().all(|run| run.len() == 2), "the next are not ready: {runs:?}");
    assert_eq!(ask::<u64>(at, &calls.disown("me")).await, 1);

    let (_, pending): (String, u64) = ask(at, &calls.remove()).await;
    assert_eq!(pending, 3);
    let leases = [calls.member(5, "s2"), calls.member(6, "s1"), calls.member(7, "s2")];
    assert_eq!(ask::<u64>(at, &calls.purge(&lanes, &[5, 6, 7], &leases, &[])).await, 3);
    let forgotten: u64 = ask(at, &calls.forget()).await;
    assert!(forgotten > calls.epoch.parse().unwrap());
    let of_partition = format!("{}*", calls.keys.hash());
    let left: Vec<String> = redis::cmd("KEYS").arg(of_partition).query_async(at).await.unwrap();
    assert!(left.iter().all(|key| key.contains(":seen:")), "{left:?}");
    assert_eq!(ask::<u64>(&mut connections[index], &calls.index("")).await, 1);
}

#[tokio::test]
async fn every_key_that_a_script_touches_is_declared_by_the_store() {
    let redis = TestRedis::start().await;
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
    for (name, ordering, kind) in [
        ("alpha", Ordering::Key, TransformKind::Http),
        ("beta", Ordering::Destination, TransformKind::Worker),
        ("gamma", Ordering::Key, TransformKind::None),
    ] {
        through_the_store(&store, &mut connection, name, ordering, kind, long).await;
    }
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
                // What is told to everyone has no slot: the channel of `index` is an argument.
                declared.truncate(if script == "index" { usize::MAX } else { count });
                seen.insert(script);
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

/// Every verb of the store, each doing something.
async fn through_the_store(
    store: &Store,
    connection: &mut MultiplexedConnection,
    name: &str,
    ordering: Ordering,
    kind: TransformKind,
    long: Duration,
) {
    let mut destination = Destination::new(name.parse().unwrap(), "http://127.0.0.1:9/");
    destination.ordering = ordering;
    destination.transform.kind = kind;
    let defined = store.define(&destination).await.unwrap();
    let partition = destination.name.partition(store.keys().partitions());
    let known = Known { destination, version: defined.version, partition };
    let token = OwnerToken::random();
    let epoch = store.own(partition, &token, long).await.unwrap().epoch;
    let owner = Owner { token, epoch };
    let caller = store.caller(name);
    let arrival = |key: &str, idempotency_key: Option<&str>| Arrival {
        message: Message {
            id: "m".into(),
            key: Some(key.to_owned()),
            headers: Vec::new(),
            body: Body { content_type: "text/plain".into(), bytes: "body".into() },
            received_ms: 0,
        },
        idempotency_key: idempotency_key.map(str::to_owned),
    };
    let arrivals = [arrival("a", None), arrival("b", Some("once")), arrival("a", Some("twice"))];
    let arrivals: Vec<&Arrival> = arrivals.iter().collect();
    store.ingest(&caller, &known, epoch, &arrivals).await.unwrap();

    if kind != TransformKind::None {
        let claimed = store.claim(&caller, &known, 10, long).await.unwrap();
        let tokens: Vec<_> = claimed.messages.iter().map(|(token, _)| token.clone()).collect();
        assert_eq!(tokens.len(), 3);
        store.extend(&known, &tokens, long).await.unwrap();
        let failed = |at: usize, wait| Failed { token: tokens[at].clone(), wait };
        let failed = [failed(0, Duration::ZERO), failed(1, long)];
        store.fail(&caller, &known, &failed).await.unwrap();
        store.unclaim(&caller, &known, &tokens[2..]).await.unwrap();
        let delayed = store.keys().partition(partition).delayed();
        let past = redis::cmd("ZADD").arg(delayed).arg(1).arg(format!("{name}/2")).to_owned();
        past.exec_async(connection).await.unwrap();
        assert_eq!(store.recover(&[partition]).await.unwrap().delays, 1);
        let claimed = store.claim(&caller, &known, 10, long).await.unwrap();
        let done = completions(&claimed);
        let statuses = store.complete(&caller, &known, &done).await.unwrap();
        assert_eq!(statuses, [Status::Ok; 3]);
    }
    let keys = match ordering {
        Ordering::Destination => vec![None],
        Ordering::Key => vec![Some("a".to_owned()), Some("b".to_owned())],
    };
    let lane = |settled_to: u64, key: &Option<String>| LaneRequest {
        key: key.clone(),
        settled_to,
        tombstones: 0,
        in_hand: 0,
        want: 2,
    };
    let all: Vec<LaneRequest> = keys.iter().map(|key| lane(0, key)).collect();
    let runs = store.release(&owner, &known, &all).await.unwrap();
    assert!(runs.iter().all(|run| !run.messages.is_empty()));
    let first = keys[0].as_deref();
    store.postpone(&owner, &known, first, 1, 1, Duration::ZERO).await.unwrap();
    store.release(&owner, &known, &[lane(1, &keys[0])]).await.unwrap();
    store.disown(partition, &owner.token).await.unwrap();
    // Removed with a message pending, and with one under a lease where there are leases.
    store.ingest(&caller, &known, epoch, &[&arrivals[0].clone()]).await.unwrap();
    if kind != TransformKind::None {
        assert_eq!(store.claim(&caller, &known, 10, long).await.unwrap().messages.len(), 1);
        let leases = store.overdue(&[partition]).await.unwrap();
        assert!(leases[0].by_destination.is_empty(), "none is over");
    }
    assert!(store.remove(&known.destination.name, true).await.unwrap().purged > 0);
    assert!(store.active_of_all(&[partition], Claimers::Builtin, 10).await.unwrap()[0].is_empty());
    Catalog::load(store.clone()).await.unwrap();
}

fn completions(claimed: &Claimed) -> Vec<Completion> {
    let complete = |(token, message): &(_, Stamped)| Completion {
        token: Clone::clone(token),
        output: message.clone(),
    };
    claimed.messages.iter().map(complete).collect()
}
