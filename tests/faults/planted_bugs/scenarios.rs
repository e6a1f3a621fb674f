//! The scenarios. Each passes without a bug, and shows an anomaly with each of its bugs.

use serde_json::{Value, json};

use super::{
    scenario::{Anomaly, Manners, Scenario, Verdict},
    support::{
        control::Visit,
        journal::Delivery,
        pods::{Settings, client},
        producer::{Item, Producer},
    },
};

pub(super) const ALL: &str = "ingest,processor,sender";
pub(super) const SOON: &str = "delivery = { backoff_ms = 20, backoff_max_ms = 50 }";

pub(super) fn short_leases(settings: &mut Settings) {
    settings.processor_lease_ms = 1000;
    settings.sender_lease_ms = 800;
}

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{{\"number\":{number}}}")).collect()
}

/// The verdict of a scenario, and the number of messages that it had sent.
pub type Ended = (Verdict, usize);

/// Transforms fail, the receiver refuses deliveries, one message takes long, and Redis is killed
/// between two batches.
pub async fn failures(bug: Option<String>) -> Ended {
    let manners =
        Manners { refuses_each: 3, fails_each: 4, third_takes_ms: 3500, ..Manners::default() };
    let leases = |settings: &mut Settings| {
        short_leases(settings);
        // Shorter than the time for the third message, but long enough not to expire on a slow machine.
        settings.processor_lease_ms = 2000;
    };
    let mut scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, leases).await;
    let verdict = async {
        scenario.send(8).await?;
        scenario.settles().await?;
        let of_third =
            |one: &&Delivery| one.headers.as_ref().is_some_and(|headers| headers.sequence == 3);
        if scenario.transforms.all().iter().filter(of_third).count() > 1 {
            return Err(Anomaly::ProcessedTwice);
        }
        scenario.redis.kill_and_restart().await;
        scenario.send(8).await?;
        scenario.settles().await
    }
    .await;
    (verdict, scenario.sent)
}

/// The receiver accepts a part of each batch, and its answer cannot be parsed.
pub async fn unclear_answers(bug: Option<String>) -> Ended {
    let manners = Manners { is_unclear: true, ..Manners::default() };
    let delivery =
        "delivery = { batch_max = 4, batch_linger_ms = 20, backoff_ms = 20, backoff_max_ms = 50 }";
    let mut scenario =
        Scenario::start(bug.as_deref(), &[ALL], manners, delivery, short_leases).await;
    let verdict = async {
        scenario.send(8).await?;
        scenario.settles().await
    }
    .await;
    (verdict, scenario.sent)
}

/// Sends messages to several destinations at once, whose blocks go to Redis in one call. Each destination
/// already has a different number of messages, so that the position in an answer identifies the destination.
pub async fn many_in_one_call(bug: Option<String>) -> Ended {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    const ROUNDS: u64 = 20;
    let with_destinations = |settings: &mut Settings| {
        for name in NAMES {
            let fields = "url = \"http://127.0.0.1:9/\"";
            *settings = settings.clone().destination(name, fields);
        }
    };
    let manners = Manners::default();
    let scenario =
        Scenario::start(bug.as_deref(), &["ingest"], manners, SOON, with_destinations).await;
    let url = scenario.pods[0].url("/v1/messages");
    let send = async |names: &[&str]| {
        let message = json!({"destinations": names, "body": 0});
        let answer = client().post(&url).json(&message).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        let answer: Value = answer.json().await.unwrap();
        let stamps = answer["deliveries"].as_array().unwrap();
        stamps.iter().map(|stamp| stamp["sequence"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // The first destination has no message yet, the second has one, and so on.
    for before in 1..NAMES.len() {
        for name in &NAMES[before..] {
            send(&[name]).await;
        }
    }
    let mut verdict = Ok(());
    for round in 1..=ROUNDS {
        let expected: Vec<_> = (0..NAMES.len() as u64).map(|before| before + round).collect();
        if send(&NAMES).await != expected {
            verdict = Err(Anomaly::Reordered);
        }
    }
    (verdict, ROUNDS as usize)
}

/// The first batch of a stream is held before its call, while the next batches arrive.
pub async fn batches(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let bodies = bodies(8);
    let verdict = async {
        scenario.control.catch("ingest.gathered");
        let mut frames = scenario.connect().await;
        frames.write(&bodies[0]).await;
        let held = scenario.control.caught().await;
        for body in &bodies[1..] {
            frames.write(body).await;
        }
        scenario.comes_to(async |scenario| scenario.last_sequence().await > 0).await;
        held.go();
        let mut last = 0;
        for _ in &bodies {
            let sequence = frames.answer().await?.ok_or(Anomaly::Stuck)?;
            if sequence < last {
                return Err(Anomaly::Reordered);
            }
            last = sequence;
        }
        scenario.settles_with(&bodies).await
    }
    .await;
    (verdict, bodies.len())
}

/// Redis stamps a message, and the connection is cut before the answer. There is no idempotency
/// key.
pub async fn lost_answer(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let bodies = bodies(2);
    let verdict = async {
        let mut frames = scenario.connect().await;
        // The pod learns the epoch with its first call.
        frames.write(&bodies[0]).await;
        frames.answer().await?.ok_or(Anomaly::Stuck)?;
        scenario.control.catch("ingest.gathered");
        frames.write(&bodies[1]).await;
        let held = scenario.control.caught().await;
        scenario.ways[0].keep_answers();
        held.go();
        scenario.until(async |scenario| scenario.last_sequence().await == 2).await?;
        scenario.ways[0].cut();
        frames.answer().await?.ok_or(Anomaly::Stuck)?;
        scenario.settles_with(&bodies).await
    }
    .await;
    (verdict, bodies.len())
}

/// A wake-up with a message arrives late, after the message was delivered. Others are from
/// another version of the destination or another epoch.
pub async fn late_hand_overs(bug: Option<String>) -> Ended {
    const MESSAGES_MAX: usize = 20;
    let manners = Manners { fails_each: 1000, ..Manners::default() };
    let mut scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let verdict = async {
        let (mut last, mut handed_over) = (Vec::new(), 0.0);
        // The sender reads the first message from Redis, and later ones too if the call that
        // settles is not answered yet.
        while handed_over == 0.0 && scenario.sent < MESSAGES_MAX {
            scenario.control.catch("sender.sending");
            scenario.send(1).await?;
            let held = scenario.control.caught().await;
            last = scenario.stored_record().await;
            held.go();
            scenario.settles().await?;
            handed_over = scenario.pods[0].metric("reseq_sender_handed_over_total").await;
        }
        if handed_over == 0.0 {
            return Err(Anomaly::Stuck);
        }
        let delivered = scenario.sent;
        for (versions, epochs, sequences) in [(0, 0, 0), (1, 0, 1), (0, 1, 1)] {
            scenario.hand_over(versions, epochs, delivered as u64 + sequences, &last).await;
        }
        let repeats = async |scenario: &Scenario| scenario.journal.all().len() > delivered;
        if scenario.comes_to(repeats).await { Err(Anomaly::Repeated) } else { Ok(()) }
    }
    .await;
    (verdict, scenario.sent)
}

/// The destination is full for one frame of a stream. There is space again before the next frame of
/// that stream is stamped.
pub async fn full(bug: Option<String>) -> Ended {
    let delivery = format!("backlog_max = 4\n{SOON}");
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, &delivery, short_leases).await;
    let bodies = bodies(6);
    let verdict = async {
        scenario.control.catch("sender.sending");
        let mut frames = scenario.connect().await;
        for body in &bodies[..4] {
            frames.write(body).await;
            frames.answer().await?.ok_or(Anomaly::Stuck)?;
        }
        let sender = scenario.control.caught().await;
        scenario.control.catch("ingest.gathered");
        frames.write(&bodies[4]).await;
        let fifth = scenario.control.caught().await;
        scenario.control.catch("ingest.gathered");
        frames.write(&bodies[5]).await;
        fifth.go();
        let sixth = scenario.control.caught().await;
        sender.go();
        scenario.settles_with(&bodies[..4]).await?;
        sixth.go();
        let fifth = frames.answer().await?.ok_or(Anomaly::Stuck)?;
        let sixth = frames.answer().await?.ok_or(Anomaly::Stuck)?;
        if sixth < fifth { Err(Anomaly::Overtaken) } else { scenario.settles_with(&bodies).await }
    }
    .await;
    (verdict, bodies.len())
}

/// The pod dies with a gathered batch that it has not sent to Redis.
pub async fn dies_before_the_call(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let bodies = bodies(1);
    let verdict = async {
        scenario.control.catch("ingest.gathered");
        let mut frames = scenario.connect().await;
        frames.write(&bodies[0]).await;
        let held = scenario.control.caught().await;
        let promised = frames.early_answer().await;
        scenario.kills(held);
        scenario.pods[0].restart().await;
        if promised.is_some() { scenario.settles_with(&bodies).await } else { Ok(()) }
    }
    .await;
    (verdict, bodies.len())
}

/// The pod dies after Redis has stamped a message, before the pod answers. The producer repeats the request.
pub async fn dies_before_the_answer(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let verdict = async {
        scenario.control.catch("ingest.stamped");
        let doors = [scenario.pods[0].addresses.clone()];
        let mut producer = Producer::new("producer", &doors, &scenario.ledger);
        let dies = async {
            let held = scenario.control.caught().await;
            scenario.kills(held);
            scenario.pods[0].restart().await;
        };
        tokio::join!(producer.send(Item::new(&["orders"], None, "producer", 0)), dies);
        scenario.settles().await
    }
    .await;
    (verdict, 1)
}

/// The pod dies with claimed messages, and comes back.
pub async fn dies_with_claims(bug: Option<String>) -> Ended {
    let manners = Manners { fails_each: 100, ..Manners::default() };
    let mut scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let verdict = async {
        scenario.control.catch("processor.claimed");
        scenario.send(5).await?;
        let held = scenario.control.caught().await;
        scenario.kills(held);
        scenario.pods[0].restart().await;
        scenario.settles().await
    }
    .await;
    (verdict, scenario.sent)
}

/// The owner's renewal is late while it delivers, and another sender acquires the partition.
pub async fn owner_is_late(bug: Option<String>) -> Ended {
    let manners = Manners { takes_ms: 25, ..Manners::default() };
    let roles = [ALL, "sender"];
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        scenario.send(100).await?;
        scenario.control.catch("owner.renewing");
        let held = scenario.control.caught().await;
        let late = held.visit.process;
        let taken = |visit: &Visit| visit.point == "owner.taken" && visit.process != late;
        scenario.control.sees("another takes the partition", 0, 1, taken).await;
        let since = scenario.control.count();
        scenario.until(async |scenario| scenario.is_idle().await).await?;
        let sends = |visit: &Visit| visit.point == "sender.sending" && visit.process == late;
        // One delivery may have been in flight.
        let sent_late = scenario.control.visits(since, sends).len();
        held.go();
        if sent_late > 2 { Err(Anomaly::TwoOwners) } else { scenario.settles().await }
    }
    .await;
    (verdict, scenario.sent)
}

/// The owner's renewal is late, another sender acquires the partition and is frozen, and Redis is
/// replaced. The former owner must not vouch that no other sender sends.
pub async fn owner_is_late_for_an_epoch(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let roles = ["ingest", "sender", "sender"];
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        scenario.send(5).await?;
        scenario.control.catch("owner.renewing");
        let held = scenario.control.caught().await;
        let (late, from) = (held.visit.process, held.since);
        let takes = |visit: &Visit| visit.point == "owner.taken";
        let other = |visit: &Visit| takes(visit) && visit.process != late;
        let owner = scenario.control.sees("another takes the partition", from, 1, other).await;
        let owner = scenario.pods.iter().position(|pod| pod.id() == owner.process).unwrap();
        scenario.pods[owner].freeze();
        let fields = ["HMGET", "reseq:{p00}:epoch", "epoch", "takeover_wait_ms"];
        let (before, _): (u64, u64) = scenario.redis.ask(&fields).await.unwrap();
        // Make Redis look like another server. Connections stay open, so only the first call notices.
        let other_server = ["HSET", "reseq:{p00}:epoch", "server", "another"];
        scenario.redis.ask::<u64>(&other_server).await.unwrap();
        let since = scenario.control.count();
        held.go();
        let again = |visit: &Visit| takes(visit) && visit.process == late;
        // Until the former owner takes the partition, which lasts as long as the wait, no sender may end the wait.
        let mut has_vouched = false;
        let taken = scenario.until(async |scenario| {
            let (epoch, wait): (u64, u64) = scenario.redis.ask(&fields).await.unwrap();
            let is_taken = !scenario.control.visits(since, again).is_empty();
            has_vouched = epoch != before && wait == 0 && !is_taken;
            has_vouched || is_taken
        });
        taken.await?;
        scenario.pods[owner].thaw();
        if has_vouched { Err(Anomaly::TwoOwners) } else { scenario.settles().await }
    }
    .await;
    (verdict, scenario.sent)
}

/// The owner dies after it has postponed a refused head, and another sender takes over.
pub async fn owner_dies_after_a_refusal(bug: Option<String>) -> Ended {
    let manners = Manners { refuses_each: 3, ..Manners::default() };
    let roles = ["ingest", "sender", "sender"];
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, short_leases).await;
    let verdict = async {
        scenario.control.catch("sender.ended");
        scenario.send(5).await?;
        let held = scenario.control.caught().await;
        scenario.kills(held);
        scenario.settles().await?;
        let of_third =
            |one: &&Delivery| one.headers.as_ref().is_some_and(|headers| headers.sequence == 3);
        let deliveries = scenario.journal.all();
        let last = deliveries.iter().rfind(of_third).and_then(|one| one.headers.as_ref());
        match last.map(|headers| headers.attempt) {
            Some(2..) => Ok(()),
            _ => Err(Anomaly::AttemptForgotten),
        }
    }
    .await;
    (verdict, scenario.sent)
}

/// The owner is asked to end while a delivery is accepted but not settled.
pub async fn owner_drains(bug: Option<String>) -> Ended {
    let roles = ["ingest", "sender", "sender"];
    // No sender waits for this lease to expire: the owner resigns its partitions.
    let long = |settings: &mut Settings| settings.sender_lease_ms = 30_000;
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, long).await;
    let verdict = async {
        scenario.control.catch("sender.accepted");
        scenario.send(5).await?;
        let held = scenario.control.caught().await;
        let (owner, at) = (held.visit.process, scenario.at(&held));
        scenario.pods[at].terminate();
        let drains = |visit: &Visit| visit.point == "shutdown.draining" && visit.process == owner;
        scenario.control.sees("the owner drains", 0, 1, drains).await;
        held.go();
        scenario.pods[at].ended().await;
        scenario.settles().await?;
        match scenario.journal.all().len() {
            5 => Ok(()),
            _ => Err(Anomaly::Repeated),
        }
    }
    .await;
    (verdict, scenario.sent)
}

/// A delivery is accepted but not settled. Meanwhile its destination is removed and created
/// again, and another message gets the same sequence.
pub async fn made_again(bug: Option<String>) -> Ended {
    let roles = ["ingest", "sender"];
    let long = |settings: &mut Settings| settings.sender_lease_ms = 30_000;
    let manners = Manners::default();
    let mut scenario = Scenario::start(bug.as_deref(), &roles, manners, SOON, long).await;
    let verdict = async {
        scenario.control.catch("sender.accepted");
        scenario.send(1).await?;
        let held = scenario.control.caught().await;
        let at = scenario.at(&held);
        // The sender sees the removal and the new destination at the same time.
        scenario.pods[at].freeze();
        scenario.make_again().await;
        scenario.send(2).await?;
        scenario.pods[at].thaw();
        let delivers = |visit: &Visit| visit.point == "sender.sending";
        let since = scenario.control.count();
        // Without the bug, the sender starts over at once. With the bug, it waits for the old delivery.
        scenario
            .comes_to(async |scenario| !scenario.control.visits(since, delivers).is_empty())
            .await;
        held.go();
        scenario.settles().await
    }
    .await;
    (verdict, scenario.sent)
}
