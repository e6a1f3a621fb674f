//! Tests blocks of several partitions in one call. The partitions have different epochs, owners
//! and schemas, and each caller gets the answer to its own block.

use std::{collections::BTreeSet, time::Duration};

use domain::{Arrival, Body, Destination, Message, Position, TransformKind};
use futures::future::join_all;
use store::{
    CatalogEntry, Claimed, Completion, Ingested, LaneRequest, Owner, OwnerToken, Paused, Settled,
    Status, Store, StoreError, Wake, WakeKind,
};
use tokio::sync::broadcast::Receiver;

use crate::support::{redis::TestRedis, wakes::listen};

const LONG: Duration = Duration::from_secs(3600);
/// Number of destinations, each in a different partition.
const DESTINATIONS: usize = 6;
/// The callers of this destination do not know its new definition.
const STALE: usize = 3;

struct Case {
    known: CatalogEntry,
    owner: Owner,
}

/// Passes messages through all transitions that may share a call, each time with all destinations
/// in one call. An error says what is wrong.
pub async fn many_partitions() -> Result<(), String> {
    let redis = TestRedis::start().await;
    let settings = config::Redis { url: redis.url().to_owned(), ..config::Redis::default() };
    let (store, _) = Store::open(&settings, LONG).await.map_err(|error| format!("{error:?}"))?;
    let cases = cases(&store, &redis).await;
    let (mut waiting, _listening) = listen(&store, WakeKind::Waiting).await;

    let (arrivals, arrival) = (vec![arrival("a"), arrival("b")], arrival("c"));
    let ingested = join_all(cases.iter().enumerate().map(|(number, case)| {
        let call_sequence = store.new_call_sequence("ingest");
        // Different numbers of arrivals, so that no two calls have the same answer.
        let all: Vec<&Arrival> = arrivals.iter().chain([&arrival; 9][..number].to_vec()).collect();
        let store = &store;
        async move { store.ingest(&call_sequence, &case.known, case.owner.epoch, &all).await }
    }))
    .await;
    for (number, answer) in ingested.into_iter().enumerate() {
        let epoch = cases[number].owner.epoch;
        let stamped = |sequence| Ingested::Stamped(Position { epoch, sequence });
        let expected: Vec<_> = (1..=number as u64 + 2).map(stamped).collect();
        match answer {
            Err(StoreError::StaleDefinition) if number == STALE => {}
            Ok(found) if number != STALE && found == expected => {}
            other => return Err(format!("ingest {number}: {other:?}")),
        }
    }

    woken(&store, &cases, &mut waiting).await?;
    let claims = cases.iter().map(|case| {
        let call_sequence = store.new_call_sequence("claim");
        let store = &store;
        async move { store.claim(&call_sequence, &case.known, 1..=100, LONG).await }
    });
    let mut claimed = Vec::new();
    for (number, answer) in join_all(claims).await.into_iter().enumerate() {
        let name = &cases[number].known.destination.name;
        let is_whole = |claimed: &Claimed| {
            claimed.messages.len() == number + 2
                && claimed.messages.iter().all(|(token, _)| token.destination == *name)
        };
        claimed.push(match answer {
            Err(StoreError::StaleDefinition) if number == STALE => Claimed::default(),
            Ok(claimed) if number != STALE && is_whole(&claimed) => claimed,
            other => return Err(format!("claim {number}: {other:?}")),
        });
    }

    let completions = claimed.into_iter().zip(&cases).map(|(claimed, case)| {
        let complete = |(token, output)| Completion { token, output, is_unchanged: true };
        let all: Vec<_> = claimed.messages.into_iter().map(complete).collect();
        let store = &store;
        async move { store.complete(&case.known, &all).await }
    });
    for (number, answer) in join_all(completions).await.into_iter().enumerate() {
        match answer {
            // This destination has claimed nothing. A completion without messages fails inside its transition.
            Err(StoreError::Failed(_)) if number == STALE => {}
            Ok(found) if number != STALE && found == vec![Status::Ok; number + 2] => {}
            other => return Err(format!("complete {number}: {other:?}")),
        }
    }

    let lanes = [LaneRequest { key: None, settled: Settled::default(), held_upto: 0, limit: 100 }];
    let releases = cases.iter().map(|case| store.release(&case.owner, &case.known, &lanes));
    for (number, answer) in join_all(releases).await.into_iter().enumerate() {
        match answer {
            Err(StoreError::StaleDefinition) if number == STALE => {}
            Ok(found) if number != STALE && found.runs[0].messages.len() == number + 2 => {}
            other => return Err(format!("release {number}: {other:?}")),
        }
    }
    // A key of one has the wrong type: only its call is refused.
    let messages = store.keys().destination(&cases[1].known.destination.name).messages();
    for words in [["RENAME", &messages, "aside"], ["SET", &messages, "of another type"]] {
        redis.ask::<String>(&words).await.map_err(|error| format!("{error:?}"))?;
    }
    let releases = cases.iter().map(|case| store.release(&case.owner, &case.known, &lanes));
    for (number, answer) in join_all(releases).await.into_iter().enumerate() {
        match (number, answer) {
            (1, Err(StoreError::WrongType(wrong))) if wrong.key == messages => {}
            (STALE, Err(StoreError::StaleDefinition)) => {}
            (1 | STALE, other) => return Err(format!("release {number}: {other:?}")),
            (_, Ok(_)) => {}
            (_, other) => return Err(format!("release {number}: {other:?}")),
        }
    }
    let back = redis.ask::<String>(&["RENAME", "aside", &messages]).await;
    back.map_err(|error| format!("{error:?}"))?;
    // One owner is another one's: only its call is refused.
    let foreign = Owner { token: cases[0].owner.token.clone(), epoch: cases[2].owner.epoch };
    let releases = cases.iter().enumerate().map(|(number, case)| {
        let owner = if number == 2 { &foreign } else { &case.owner };
        store.release(owner, &case.known, &lanes)
    });
    for (number, answer) in join_all(releases).await.into_iter().enumerate() {
        match (number, answer) {
            (2, Err(StoreError::NotOwner)) | (STALE, Err(StoreError::StaleDefinition)) => {}
            (2 | STALE, other) => return Err(format!("release {number}: {other:?}")),
            (_, Ok(_)) => {}
            (_, other) => return Err(format!("release {number}: {other:?}")),
        }
    }
    newer_schema(&store, &redis, &cases).await
}

/// Checks that a wake-up names each destination that got messages, even if one call stored messages of many.
async fn woken(store: &Store, cases: &[Case], waiting: &mut Receiver<Wake>) -> Result<(), String> {
    // The stale destination, still empty, gets a message now. Its wake-up comes after the wake-ups of earlier calls.
    let Case { known, owner } = &cases[STALE];
    let last = CatalogEntry { version: known.version + 1, ..known.clone() };
    let call_sequence = store.new_call_sequence("ingest");
    let answer = store.ingest(&call_sequence, &last, owner.epoch, &[&arrival("d")]).await;
    answer.map_err(|error| format!("{error:?}"))?;
    let mut named = BTreeSet::new();
    loop {
        match waiting.recv().await {
            Ok(Wake::Waiting(name)) if name == last.destination.name => break,
            Ok(Wake::Waiting(name)) => drop(named.insert(name)),
            Ok(_) => {}
            Err(error) => return Err(format!("{error:?}")),
        }
    }
    let name = |(_, case): (_, &Case)| case.known.destination.name.clone();
    let expected: BTreeSet<_> =
        cases.iter().enumerate().filter(|(number, _)| *number != STALE).map(name).collect();
    (named == expected).then_some(()).ok_or(format!("woken: {named:?}, not {expected:?}"))
}

/// Gives one partition a newer schema: only its blocks are refused.
async fn newer_schema(store: &Store, redis: &TestRedis, cases: &[Case]) -> Result<(), String> {
    let key = store.keys().partition(cases[1].known.partition).epoch();
    redis.ask::<u64>(&["HSET", &key, "schema", "9"]).await.expect("the partition has an epoch");
    let claims = cases.iter().map(|case| {
        let call_sequence = store.new_call_sequence("claim");
        async move { store.claim(&call_sequence, &case.known, 1..=100, LONG).await }
    });
    for (number, answer) in join_all(claims).await.into_iter().enumerate() {
        match (number, answer) {
            (1, Err(StoreError::NewerSchema(9))) => {}
            (STALE, Err(StoreError::StaleDefinition)) => {}
            (1 | STALE, other) => return Err(format!("claim {number}: {other:?}")),
            (_, Ok(_)) => {}
            (_, other) => return Err(format!("claim {number}: {other:?}")),
        }
    }
    Ok(())
}

/// Destinations in partitions whose epochs and owners differ.
async fn cases(store: &Store, redis: &TestRedis) -> Vec<Case> {
    let (mut cases, mut partitions) = (Vec::<Case>::new(), Vec::new());
    for number in 0.. {
        let name = format!("destination-{number}");
        let mut destination = Destination::new(name.parse().unwrap(), "tcp://127.0.0.1:1");
        destination.transform.kind = TransformKind::Http;
        let partition = store.keys().partition_of(&destination.name);
        if partitions.contains(&partition) {
            continue;
        }
        partitions.push(partition);
        // Each partition begins its own epoch, as after a failover.
        let key = store.keys().partition(partition).epoch();
        let raised = (1_900_000_000_000_u64 + number * 1000).to_string();
        redis.ask::<u64>(&["HSET", &key, "epoch", &raised]).await.unwrap();
        let defined = store.define(&destination).await.unwrap();
        let token = OwnerToken::random();
        let epoch = store.acquire_partition(partition, &token, LONG).await.unwrap().epoch;
        let is_stale = cases.len() == STALE;
        let known = CatalogEntry {
            destination,
            of_all_shards: None,
            version: defined.version - u64::from(is_stale),
            partition,
            paused: Paused::default(),
            born: defined.born,
        };
        cases.push(Case { known, owner: Owner { token, epoch } });
        if cases.len() == DESTINATIONS {
            break;
        }
    }
    cases
}

fn arrival(text: &str) -> Arrival {
    Arrival::of(Message {
        id: text.to_owned(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: text.to_owned().into() },
        received_ms: 0,
    })
}
