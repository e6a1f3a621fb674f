//! `(epoch, sequence)` never repeats and never goes down, even if Redis has lost data. After such
//! a loss, releases wait until every lost owner must have stopped.

use std::time::Duration;

use domain::Position;
use store::{Ingested, OwnerToken, StoreError};

use super::{
    servers::{Door, address_of, ask, caught_up, follow, info, primary_with, promote},
    world::{LONG, World},
};
use crate::support::{redis::TestRedis, wait::eventually};

/// True if this is a takeover wait of full length that has just begun. Allows for the time that
/// the test itself takes.
fn is_whole(takeover_wait: Duration, lease: Duration) -> bool {
    takeover_wait <= lease && takeover_wait + Duration::from_secs(600) > lease
}

/// A field of the hash about the epoch of partition 0.
async fn noted(server: &TestRedis, field: &str) -> String {
    ask(&mut server.connection().await, &["HGET", "reseq:{p00}:epoch", field]).await
}

#[tokio::test]
async fn new_deployment_never_waits_but_a_redis_that_forgot_all_does() {
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), LONG).await;
    assert_eq!(world.acquire_partition(LONG).await.takeover_wait, Duration::ZERO);
    world.stamp().await;
    for forget in [&["DEL", "reseq:{p00}:epoch"][..], &["FLUSHALL"]] {
        ask::<redis::Value>(&mut redis.connection().await, forget).await;
        let owned = world.acquire_partition(LONG).await;
        assert!(is_whole(owned.takeover_wait, LONG), "after {forget:?}: {owned:?}");
        world.stamp().await;
        assert!(matches!(world.release(owned.epoch).await, Err(StoreError::TakeoverWait(_))));
    }
    // A pod that starts later reads the same state from Redis.
    let other = World::new(redis.url(), LONG).await;
    assert!(matches!(
        other.store.acquire_partition(0, &other.token, LONG).await,
        Err(StoreError::Owned(_))
    ));
}

#[tokio::test]
async fn releases_after_restart_wait_out_the_longest_lease_given() {
    let lease = Duration::from_millis(1500);
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), lease).await;
    let before = world.acquire_partition(lease).await;
    world.stamp().await;
    assert_eq!(world.release(before.epoch).await.unwrap(), 1);
    redis.kill_and_restart().await;
    world.stamp().await;
    let owned = world.acquire_partition(lease).await;
    assert!(
        owned.epoch > before.epoch
            && !owned.takeover_wait.is_zero()
            && owned.takeover_wait <= lease
    );
    // The owner counts by its own clock, and ends the wait. Until then, Redis releases no message.
    eventually("the wait is over", async || {
        let left = world.acquire_partition(lease).await.takeover_wait;
        let released = world.release(owned.epoch).await;
        assert!(matches!(released, Err(StoreError::TakeoverWait(1500))), "{released:?}");
        if left <= Duration::from_millis(1) { Ok(()) } else { Err(format!("{left:?} are left")) }
    })
    .await;
    let nobody = OwnerToken::random();
    world.store.resign_partition(0, &nobody, Some(owned.epoch)).await.unwrap();
    assert_eq!(world.release(owned.epoch).await.unwrap(), 2);

    // One pod had a longer lease; the pod that sees the restart has a short one. The wait is as
    // long as the longer lease.
    world.store.resign_partition(0, &world.token, None).await.unwrap();
    world.acquire_partition(LONG).await;
    redis.kill_and_restart().await;
    let _short = World::new(redis.url(), lease).await;
    let wait = noted(&redis, "takeover_wait_ms").await;
    assert_eq!(wait, LONG.as_millis().to_string());
}

#[tokio::test]
async fn a_failover_and_a_failover_back_each_begin_an_epoch() {
    let (a, mut replicas) = primary_with(1).await;
    let b = replicas.remove(0);
    let door = Door::to(&a).await;
    let mut world = World::new(&door.url(), LONG).await;
    let mut epochs = vec![world.acquire_partition(LONG).await.epoch];
    let mut identities = vec![noted(&a, "server").await];
    world.stamp().await;
    // Back and forth: the old primary becomes a replica of the new one, and then takes over.
    for (from, to) in [(&a, &b), (&b, &a), (&a, &b)] {
        caught_up(to, from).await;
        promote(to).await;
        door.lead_to(to);
        let position = world.stamp().await;
        let owned = world.acquire_partition(LONG).await;
        assert_eq!(owned.epoch, position.epoch);
        assert!(is_whole(owned.takeover_wait, LONG), "{owned:?}");
        assert!(owned.epoch > *epochs.last().unwrap());
        epochs.push(owned.epoch);
        identities.push(noted(to, "server").await);
        follow(from, address_of(to)).await;
    }
    // No server was restarted, but each promotion gives the replication history another id.
    let runs = [info(&a, "run_id").await, info(&b, "run_id").await];
    for (at, identity) in identities.iter().enumerate() {
        assert!(identity.starts_with(&runs[at % 2]), "{identity}");
        assert!(!identities[..at].contains(identity), "{identity} came back");
    }
    let sequences: Vec<u64> = world.places.iter().map(|position| position.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4], "nothing was lost, as each had caught up");
}

#[tokio::test]
async fn an_epoch_that_was_lost_is_never_gone_behind() {
    let (a, mut replicas) = primary_with(1).await;
    let b = replicas.remove(0);
    let door = Door::to(&a).await;
    let mut world = World::new(&door.url(), LONG).await;
    world.acquire_partition(LONG).await;
    world.stamp().await;
    caught_up(&b, &a).await;
    promote(&b).await;
    door.lead_to(&b);
    let Position { epoch: lost, .. } = world.stamp().await;
    world.acquire_partition(LONG).await;
    // B is gone with all its data. A is unchanged, with the same identity.
    door.lead_to(&a);
    let owned = world.acquire_partition(LONG).await;
    assert!(owned.epoch > lost && is_whole(owned.takeover_wait, LONG), "{owned:?} after {lost}");
    let again = world.stamp().await;
    assert_eq!((again.epoch, again.sequence), (owned.epoch, 2), "a sequence again, and no place");
}

#[tokio::test]
async fn a_clock_that_is_behind_takes_no_epoch_back() {
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), LONG).await;
    let mut at = redis.connection().await;
    let key = "reseq:{p00}:epoch";
    let first: u64 = ask(&mut at, &["HGET", key, "epoch"]).await;
    // A primary whose clock was an hour ahead began an epoch, and stamped a message in it.
    let ahead = (first + 3_600_000).to_string();
    ask::<u64>(&mut at, &["HSET", key, "epoch", &ahead]).await;
    let position = world.stamp().await;
    assert_eq!(position.epoch.to_string(), ahead);
    // The next primary does not know that epoch. It can have lost the epoch in three ways.
    let older = first.to_string();
    let forgotten = [
        &["HSET", key, "epoch", &older][..],
        &["HSET", key, "epoch", &older, "server", "0123"],
        &["DEL", key],
    ];
    for forget in forgotten {
        ask::<u64>(&mut at, forget).await;
        let owned = world.acquire_partition(LONG).await;
        assert!(is_whole(owned.takeover_wait, LONG), "{owned:?}");
        assert_eq!(world.stamp().await.epoch, owned.epoch);
    }
    // Every script that may notice the loss first gets the newest epoch that the pod has seen.
    ask::<u64>(&mut at, &["HSET", key, "epoch", &older]).await;
    world.stamp().await;
    let last = world.acquire_partition(LONG).await.epoch;
    ask::<u64>(&mut at, &["HSET", key, "epoch", &older]).await;
    let Err(StoreError::StaleEpoch(now)) = world.release(last).await else { panic!("released") };
    assert!(now > last);
    ask::<u64>(&mut at, &["HSET", key, "epoch", &older]).await;
    world.store.delete_destination(world.name(), true).await.unwrap();
    assert!(world.stamp().await.epoch > now + 1);
}

#[tokio::test]
async fn recreated_destination_counts_anew_in_a_higher_epoch() {
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), LONG).await;
    let owned = world.acquire_partition(LONG).await;
    let Ingested::Stamped(first) = world.stamp_once("order-7").await else { panic!("stamped") };
    assert!(
        matches!(world.stamp_once("order-7").await, Ingested::Duplicate(position, _) if position == first)
    );
    world.places.push(first);
    world.stamp().await;
    let old = world.known.clone();
    world.store.delete_destination(world.name(), true).await.unwrap();
    let position = world.stamp().await;
    assert!(position.sequence == 1 && position.epoch > owned.epoch);
    // The idempotency key of a message is gone with its destination.
    assert!(
        matches!(world.stamp_once("order-7").await, Ingested::Stamped(position) if position.sequence == 2)
    );
    // A release for the removed destination is refused, but the sender still owns the partition.
    let new = std::mem::replace(&mut world.known, old);
    assert!(matches!(world.release(owned.epoch).await, Err(StoreError::StaleDefinition)));
    world.known = new;
    assert_eq!(world.release(owned.epoch).await.unwrap(), 2);
    let again = world.acquire_partition(LONG).await;
    assert_eq!((again.epoch, again.takeover_wait), (owned.epoch, Duration::ZERO));
}

#[tokio::test]
async fn recreated_destination_is_above_all_before_at_any_clock() {
    let redis = TestRedis::start().await;
    let mut world = World::new(redis.url(), LONG).await;
    let mut at = redis.connection().await;
    let (key, hash) = ("reseq:{p00}:epoch", "reseq:{p00}:d:erp");
    let first: u64 = ask(&mut at, &["HGET", key, "epoch"]).await;
    // The clock was an hour ahead when the partition's epoch began and the destination was defined.
    let ahead = first + 3_600_000;
    ask::<u64>(&mut at, &["HSET", key, "epoch", &ahead.to_string()]).await;
    ask::<u64>(&mut at, &["HSET", hash, "version", &ahead.to_string()]).await;
    world.stamp().await;
    let mut versions = vec![ahead];
    for _ in 0..3 {
        world.store.delete_destination(world.name(), true).await.unwrap();
        // `stamp` checks that the position is above all earlier ones.
        let position = world.stamp().await;
        assert_eq!(position.sequence, 1);
        versions.push(world.known.version);
    }
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    // The epoch after a restart is above those of the destinations, too.
    redis.kill_and_restart().await;
    world.stamp().await;
}

#[tokio::test]
async fn what_was_made_again_and_lost_is_never_gone_behind() {
    let (a, mut replicas) = primary_with(1).await;
    let b = replicas.remove(0);
    let door = Door::to(&a).await;
    let mut world = World::new(&door.url(), LONG).await;
    world.acquire_partition(LONG).await;
    world.stamp().await;
    caught_up(&b, &a).await;
    let ahead = world.store.server_time_ms().await.unwrap() + 3_600_000;
    promote(&b).await;
    door.lead_to(&b);
    world.stamp().await;
    // B's clock is far ahead of A's: only a pod that has seen B's epochs can know them.
    let mut at_b = b.connection().await;
    let epoch = ahead.to_string();
    ask::<u64>(&mut at_b, &["HSET", "reseq:{p00}:epoch", "removed_epoch", &epoch]).await;
    world.store.delete_destination(world.name(), true).await.unwrap();
    let lost = world.stamp().await;
    assert!(lost.sequence == 1 && lost.epoch > ahead, "{lost:?}");
    // B is gone with all its data. A has the removed destination and its message.
    door.lead_to(&a);
    let again = world.stamp().await;
    assert!(again.epoch > lost.epoch && again.sequence == 2, "{again:?} after {lost:?}");
}
