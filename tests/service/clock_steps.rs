//! Steps the clock of Redis forward and back while everything runs. No part waits for the size of
//! the step, no lane has two senders, and no call takes effect twice.

use std::{sync::Arc, time::Duration};

use domain::{AttemptError, ErrorKind, Ordering, Stage, TransformKind};
use serde_json::{Value, json};
use store::{Ingested, Owner, RefusedHead, StoreError};

use crate::{
    durability::world::{LONG, World},
    support::{
        gate::Point,
        pods::{Pod, Settings, client},
        receiver::{Inbox, Receiver},
        redis::TestRedis,
        wait::eventually,
    },
};

/// Longer than any test waits.
const STEP: Duration = Duration::from_secs(600);
const PARTITIONS: u16 = 4;
const LEASE_MS: u64 = 1500;

struct Deployment {
    redis: TestRedis,
    inbox: Arc<Inbox>,
    settings: Settings,
    _receiver: Receiver,
}

impl Deployment {
    /// At first, the clock of Redis is one step ahead.
    async fn new(transform: &str) -> Deployment {
        let redis = TestRedis::start_with_clock().await;
        redis.clock().step(STEP, true);
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let fields = format!("url = \"{}\"\ntransform = {transform}", receiver.url());
        let mut settings = Settings::new(redis.url()).destination("erp", &fields);
        settings.partitions = PARTITIONS;
        settings.sender_lease_ms = LEASE_MS;
        Deployment { redis, inbox, settings, _receiver: receiver }
    }

    async fn pod(&self, name: &str, roles: &str) -> Pod {
        Pod::start(name, roles, &self.settings).await
    }

    fn step_back(&self) {
        self.redis.clock().step(STEP, false);
    }

    /// The values of the owner keys: the token, and the number of renewals of its lease.
    async fn owners(&self) -> Result<Vec<(String, u64)>, String> {
        let mut all = Vec::new();
        for partition in 0..PARTITIONS {
            let key = format!("reseq:{{p{partition:02}}}:owner");
            let value: Option<String> = self.redis.ask(&["GET", &key]).await.unwrap();
            let value = value.ok_or_else(|| format!("{key} is free"))?;
            let words: Vec<&str> = value.split(' ').collect();
            all.push((words[0].to_owned(), words[2].parse().unwrap()));
        }
        Ok(all)
    }
}

async fn send(pod: &Pod, body: &str) {
    let url = pod.url("/v1/destinations/erp/messages");
    let answer = client().post(url).header("content-type", "text/plain").body(body.to_owned());
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
}

async fn posted(pod: &Pod, path: &str, body: Value) -> Value {
    let request = client().post(pod.url(path)).header("content-type", "application/json");
    let text = request.body(body.to_string()).send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

const NONE: &str = "{ kind = \"none\" }";

#[tokio::test]
async fn step_back_after_a_restart_does_not_stop_deliveries() {
    let deployment = Deployment::new(NONE).await;
    let mut pod = deployment.pod("reseq", "ingest,sender").await;
    send(&pod, "before").await;
    deployment.inbox.journal.reaches(1).await;
    // No sender can vouch, so another sender must wait.
    pod.kill();
    deployment.redis.kill_and_restart().await;
    pod.restart().await;
    deployment.step_back();
    send(&pod, "after").await;
    deployment.inbox.journal.reaches(2).await;
}

#[tokio::test]
async fn step_forward_gives_no_partition_to_another_sender() {
    let deployment = Deployment::new(NONE).await;
    let pods =
        [deployment.pod("one", "ingest,sender").await, deployment.pod("two", "sender").await];
    let before = eventually("each pod owns its share", async || {
        let owners = deployment.owners().await?;
        let of = |pod: &str| owners.iter().filter(|(token, _)| token.starts_with(pod)).count();
        let first = owners[0].0.split('.').next().unwrap_or_default().to_owned();
        if of(&first) == usize::from(PARTITIONS) / 2 {
            Ok(owners)
        } else {
            Err(format!("{owners:?}"))
        }
    })
    .await;
    deployment.inbox.gate.hold(Point::Arrived);
    send(&pods[0], "held").await;
    deployment.inbox.gate.holds(1).await;
    deployment.redis.clock().step(STEP, true);
    // Several leases pass, counted in renewals.
    eventually("all leases were renewed many times", async || {
        let owners = deployment.owners().await?;
        for ((token, renewals), (owner, then)) in owners.iter().zip(&before) {
            assert_eq!(token, owner, "another sender has taken a partition");
            if *renewals < then + 12 {
                return Err(format!("{owners:?}"));
            }
        }
        Ok(())
    })
    .await;
    deployment.inbox.gate.let_go();
    deployment.inbox.journal.reaches(1).await;
    assert_eq!(deployment.inbox.journal.times().len(), 1, "it was delivered twice");
}

#[tokio::test]
async fn step_back_leaves_no_partition_to_a_dead_sender() {
    let deployment = Deployment::new(NONE).await;
    let one = deployment.pod("one", "ingest,sender").await;
    let mut two = deployment.pod("two", "sender").await;
    let owns = async |count: f64| {
        eventually("it owns its share", async || {
            let owned = one.metric("reseq_sender_partitions_owned").await;
            if owned == count { Ok(()) } else { Err(owned.to_string()) }
        })
        .await;
    };
    owns(f64::from(PARTITIONS) / 2.0).await;
    two.kill();
    deployment.step_back();
    owns(f64::from(PARTITIONS)).await;
}

/// Claims as a worker until it gets the message. Returns the lease.
async fn claimed(pod: &Pod, lease_ms: u64) -> Value {
    let claim = json!({"destinations": ["erp"], "max": 1, "wait_ms": 1000, "lease_ms": lease_ms});
    eventually("a worker gets the message", async || {
        let answer = posted(pod, "/v1/leases", claim.clone()).await;
        let lease = answer["leases"][0].clone();
        if lease.is_null() { Err(answer.to_string()) } else { Ok(lease) }
    })
    .await
}

/// A second worker holds the message. The owner of the partition has already reaped the lease of
/// a dead worker, so it has read the clock of Redis.
async fn held_by_a_second_worker(pod: &Pod) -> Value {
    send(pod, "of dead workers").await;
    assert_eq!(claimed(pod, 100).await["attempt"], 1);
    let second = claimed(pod, 4000).await;
    assert_eq!(second["attempt"], 2, "{second}");
    second
}

#[tokio::test]
async fn step_back_does_not_lengthen_the_lease_of_a_dead_worker() {
    let deployment = Deployment::new("{ kind = \"worker\" }").await;
    let pod = deployment.pod("reseq", "ingest,processor,sender").await;
    held_by_a_second_worker(&pod).await;
    deployment.step_back();
    assert_eq!(claimed(&pod, 60_000).await["attempt"], 3);
}

#[tokio::test]
async fn step_back_does_not_lengthen_a_backoff() {
    let deployment = Deployment::new("{ kind = \"worker\" }").await;
    let pod = deployment.pod("reseq", "ingest,processor,sender").await;
    let second = held_by_a_second_worker(&pod).await;
    let failed = json!({"items": [{"token": second["token"], "retry_ms": 6000}]});
    let failed = posted(&pod, "/v1/leases/fail", failed).await;
    assert_eq!(failed["results"][0]["status"], "ok", "{failed}");
    deployment.step_back();
    assert_eq!(claimed(&pod, 60_000).await["attempt"], 3);
}

#[tokio::test]
async fn step_back_does_not_lengthen_a_rest() {
    let transform = "{ kind = \"worker\", rate_per_second_max = 1 }";
    let deployment = Deployment::new(transform).await;
    let pod = deployment.pod("reseq", "ingest,processor,sender").await;
    for body in ["1", "2", "3"] {
        send(&pod, body).await;
    }
    let first = claimed(&pod, 60_000).await;
    deployment.step_back();
    let (second, third) = (claimed(&pod, 60_000).await, claimed(&pod, 60_000).await);
    let sequences = [first, second, third].map(|lease| lease["sequence"].clone());
    assert_eq!(sequences, [1, 2, 3]);
}

/// A receiver may ask for a wait of up to an hour, so the step is not longer than a possible wait of a head.
#[tokio::test]
async fn step_back_does_not_lengthen_the_backoff_of_a_delivery() {
    const WAIT: Duration = Duration::from_secs(60);
    for ordering in [Ordering::Destination, Ordering::Key, Ordering::None] {
        let redis = TestRedis::start_with_clock().await;
        let mut world = World::new(redis.url(), LONG).await;
        world.known.destination.ordering = ordering;
        let defined = world.store.define(&world.known.destination).await.unwrap();
        (world.known.version, world.known.born) = (defined.version, defined.born);
        let sequence = world.stamp().await.sequence;
        let epoch = world.acquire_partition(LONG).await.epoch;
        let lane = world.known.destination.lane_of(None, sequence);
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Failed, "no");
        let head = RefusedHead { lane: lane.as_deref(), sequence, failed: 1, error: &error };
        let owner = Owner { token: world.token.clone(), epoch };
        world.store.postpone(&owner, &world.known, head, WAIT).await.unwrap();
        world.store.recover_owned(&[0]).await.unwrap();
        redis.clock().step(STEP, false);
        world.store.recover_owned(&[0]).await.unwrap();
        let keys = world.store.keys().destination(world.name());
        let mut hints = vec![(keys.partition.releasable(), "erp".to_owned())];
        hints.extend(lane.map(|lane| (keys.lanes(), lane)));
        let now_ms = world.store.server_time_ms().await.unwrap();
        for (key, member) in hints {
            let until_ms: f64 = redis.ask(&["ZSCORE", &key, &member]).await.unwrap();
            let left_ms = until_ms as i64 - now_ms as i64;
            assert!(left_ms <= 60_000, "{ordering:?}: {key} waits for {left_ms} ms");
            assert!(left_ms > 0, "{ordering:?}: {key} has waited {left_ms} ms less than it must");
        }
    }
}

/// A worker holds a message of each of two destinations. The leases ended, and then the clock
/// stepped back. The owner has not read the clock since the leases began.
async fn with_ended_leases(redis: &TestRedis) -> World {
    let mut world = World::new(redis.url(), LONG).await;
    world.store.recover_owned(&[0]).await.unwrap();
    for name in ["first", "second"] {
        let destination = &mut world.known.destination;
        destination.name = name.parse().unwrap();
        destination.transform.kind = TransformKind::Worker;
        let defined = world.store.define(destination).await.unwrap();
        (world.known.version, world.known.born) = (defined.version, defined.born);
        world.places.clear();
        world.stamp().await;
        let (store, call) = (&world.store, world.store.call_sequence("worker"));
        let lease = Duration::from_millis(1);
        // Tests of this process that move other clocks can make a call late: it is repeated, as pods do.
        let claimed = store::retry_until(None, || store.claim(&call, &world.known, 1..=1, lease));
        let claimed = claimed.await.unwrap();
        assert_eq!(claimed.messages.len(), 1);
        eventually("its lease has ended", async || {
            let now_ms = store.server_time_ms().await.unwrap();
            if now_ms > claimed.deadline_ms { Ok(()) } else { Err(now_ms.to_string()) }
        })
        .await;
    }
    redis.clock().step(STEP, false);
    world
}

#[tokio::test]
async fn lease_that_ended_before_a_step_does_not_wait_for_it() {
    let redis = TestRedis::start_with_clock().await;
    let world = with_ended_leases(&redis).await;
    assert_eq!(world.store.recover_owned(&[0]).await.unwrap().leases, 2);
}

#[tokio::test]
async fn step_is_remembered_until_all_leases_are_moved() {
    let redis = TestRedis::start_with_clock().await;
    let world = with_ended_leases(&redis).await;
    let attempts = world.store.keys().destination(&"first".parse().unwrap()).attempts();
    redis.ask::<()>(&["SET", &attempts, "damaged"]).await.unwrap();
    assert_eq!(world.store.recover_owned(&[0]).await.unwrap().leases, 1, "of the second");
    redis.ask::<u64>(&["DEL", &attempts]).await.unwrap();
    assert_eq!(world.store.recover_owned(&[0]).await.unwrap().leases, 1, "of the first");
    assert_eq!(world.store.recover_owned(&[0]).await.unwrap().leases, 0);
}

#[tokio::test]
async fn late_call_is_refused_and_stores_nothing() {
    let redis = TestRedis::start_with_clock().await;
    let mut world = World::new(redis.url(), LONG).await;
    let first = world.stamp().await;
    let number = (world.store.server_time_ms().await.unwrap() + 60_000) * 1000;
    let sequence = world.store.call_sequence("producer");
    let stamped = world.call(&sequence, number).await.unwrap();
    assert!(matches!(stamped, Ingested::Stamped(_)), "{stamped:?}");
    let again = world.call(&sequence, number).await.unwrap();
    assert_eq!(again, stamped, "a repeat in time has the same answer");
    // Redis forgets kept answers after a minute.
    redis.clock().step(Duration::from_secs(70), true);
    let late = world.call(&sequence, number).await;
    assert!(matches!(late, Err(StoreError::LateCall(_))), "{late:?}");
    let next = world.stamp().await;
    assert_eq!(next.sequence, first.sequence + 2, "the late call has stamped nothing");
}

#[tokio::test]
async fn call_answers_are_kept_while_the_clock_steps_back() {
    let redis = TestRedis::start_with_clock().await;
    let mut world = World::new(redis.url(), LONG).await;
    world.stamp().await;
    let number = (world.store.server_time_ms().await.unwrap() + 60_000) * 1000;
    let sequence = world.store.call_sequence("producer");
    let stamped = world.call(&sequence, number).await.unwrap();
    for _ in 0..3 {
        redis.clock().step(STEP, false);
        assert_eq!(world.call(&sequence, number).await.unwrap(), stamped);
        // New calls learn the time from one refusal.
        world.stamp().await;
    }
}
