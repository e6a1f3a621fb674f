//! The scenarios. Each passes without a bug, and shows an anomaly with each of its bugs.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::hex::hex;
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// The receiver refuses everything for a while: the two lanes, and the first probe or two.
pub async fn receiver_fails(bug: Option<String>) -> Ended {
    let manners = Manners { refuses_first: 4, ..Manners::default() };
    let delivery = "ordering = \"key\"\n\
                    delivery = { breaker_failures = 2, backoff_ms = 20, backoff_max_ms = 50 }";
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, delivery, short_leases).await;
    let items: Vec<Value> = (0..8)
        .map(|number| json!({"destinations": ["orders"], "body": number, "key": if number % 2 == 0 { "even" } else { "odd" }}))
        .collect();
    let lines: Vec<String> = items.iter().map(Value::to_string).collect();
    let request = client().post(scenario.pods[0].url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson").body(lines.join("\n"));
    assert_eq!(request.send().await.unwrap().status(), 202);
    let verdict = async {
        let idle = scenario.until(async |scenario| scenario.is_idle().await).await;
        let accepted = scenario.journal.all();
        let of_lane = |rest: u64| {
            let numbers = accepted.iter().filter_map(|one| one.body.parse::<u64>().ok());
            numbers.filter(|number| number % 2 == rest).collect::<Vec<_>>()
        };
        let in_order =
            [0, 2, 4, 6].starts_with(&of_lane(0)) && [1, 3, 5, 7].starts_with(&of_lane(1));
        match (in_order, of_lane(0).len() + of_lane(1).len()) {
            (false, _) => Err(Anomaly::Reordered),
            (true, 8) => idle,
            (true, _) => idle.and(Err(Anomaly::Lost)),
        }
    }
    .await;
    (verdict, items.len())
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

/// A producer sends the same JSON message twice, with the idempotency key in the header.
pub async fn sent_twice(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let message = json!({"destinations": ["orders"], "body": {"number": 0}});
    for _ in 0..2 {
        let request = client().post(scenario.pods[0].url("/v1/messages")).json(&message);
        let sent = request.header("idempotency-key", "order-0").send().await.unwrap();
        assert_eq!(sent.status(), 202);
    }
    let verdict = async {
        scenario.until(async |scenario| scenario.is_idle().await).await?;
        if scenario.last_sequence().await == 1 { Ok(()) } else { Err(Anomaly::Doubled) }
    }
    .await;
    (verdict, 2)
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

/// A destination verifies signatures. It gets a valid one, and three invalid ones: from another
/// secret, right only at its beginning, and from a time long ago.
pub async fn forged(bug: Option<String>) -> Ended {
    const SECRET: &str = "a secret of the sender";
    let with_hooks = |settings: &mut Settings| {
        let fields = format!(
            "url = \"http://127.0.0.1:9/\"\n[destination.verify]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]"
        );
        *settings = settings.clone().destination("hooks", &fields);
    };
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, with_hooks).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let signed = |time: u64| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        hex(hmac::sign(&key, format!("{time}.body").as_bytes()).as_ref())
    };
    let right = signed(now);
    let begun = format!("{}{}", &right[..32], "0".repeat(32));
    let mut verdict = Ok(());
    for (time, signature, is_right) in [
        (now, right, true),
        (now, "0".repeat(64), false),
        (now, begun, false),
        (now - 3600, signed(now - 3600), false),
    ] {
        let request = client().post(scenario.pods[0].url("/v1/destinations/hooks/messages"));
        let request = request.header("stripe-signature", format!("t={time},v1={signature}"));
        let status = request.body("body").send().await.unwrap().status();
        match (status.as_u16(), is_right) {
            (202, true) | (401, false) => {}
            (202, false) => verdict = Err(Anomaly::Admitted),
            other => panic!("{other:?}"),
        }
    }
    (verdict, 4)
}

/// Defines a destination with a secret twice, identically.
pub async fn defined_again(bug: Option<String>) -> Ended {
    let with_key = |settings: &mut Settings| {
        let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
        settings.environment.push(("RESEQ_SECRETS_KEY".into(), key.into()));
    };
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, with_key).await;
    let definition =
        json!({"url": "http://127.0.0.1:9/", "headers": {"authorization": "a secret"}});
    let mut versions = Vec::new();
    for _ in 0..2 {
        let request = client().put(scenario.pods[0].url("/v1/destinations/again"));
        let said: Value = request.json(&definition).send().await.unwrap().json().await.unwrap();
        versions.push(said["version"].as_u64().unwrap());
    }
    let is_same = versions[0] == versions[1];
    (if is_same { Ok(()) } else { Err(Anomaly::ChangedByNothing) }, 0)
}

/// A worker leases a message that its JSON parser refuses, and a good one.
pub async fn deep_body(bug: Option<String>) -> Ended {
    let with_worker = |settings: &mut Settings| {
        let fields = "url = \"http://127.0.0.1:9/\"\ntransform = { kind = \"worker\" }";
        *settings = settings.clone().destination("work", fields);
    };
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, with_worker).await;
    for body in ["[".repeat(500) + &"]".repeat(500), "1".to_owned()] {
        let request = client().post(scenario.pods[0].url("/v1/destinations/work/messages"));
        let request = request.header("content-type", "application/json").body(body);
        assert_eq!(request.send().await.unwrap().status(), 202);
    }
    let lease = json!({"destinations": ["work"], "max": 2, "wait_ms": 1000});
    let leased = client().post(scenario.pods[0].url("/v1/leases")).json(&lease);
    let leased = leased.send().await.unwrap().json::<Value>().await;
    let count = leased.ok().and_then(|leased| leased["leases"].as_array().map(Vec::len));
    (if count == Some(2) { Ok(()) } else { Err(Anomaly::Stuck) }, 2)
}

/// A worker completes messages of two lanes in one call; a key of one lane has another type.
pub async fn damaged_lane(bug: Option<String>) -> Ended {
    let with_worker = |settings: &mut Settings| {
        let fields =
            "url = \"http://127.0.0.1:9/\"\nordering = \"key\"\ntransform = { kind = \"worker\" }";
        *settings = settings.clone().destination("work", fields);
    };
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, with_worker).await;
    let post = async |path: &str, body: Value| {
        let request = client().post(scenario.pods[0].url(path)).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    for key in ["a", "b"] {
        post("/v1/messages", json!({"destinations": ["work"], "body": key, "key": key})).await;
    }
    let lease = json!({"destinations": ["work"], "max": 2, "min": 2, "wait_ms": 10_000});
    let leases = post("/v1/leases", lease).await["leases"].clone();
    let ready = "reseq:{p00}:d:work:ready:a";
    scenario.redis.ask::<()>(&["SET", ready, "of another type"]).await.unwrap();
    let item = |lease: &Value| json!({"token": lease["token"], "body": 1});
    let items: Vec<Value> = leases.as_array().unwrap().iter().map(item).collect();
    let results = post("/v1/leases/complete", json!({"items": items})).await["results"].clone();
    if results[0]["status"] != "damaged" || results[1]["status"] != "damaged" {
        return (Err(Anomaly::Stuck), 2);
    }
    let answer = client().get(scenario.pods[0].url("/readyz")).send().await.unwrap();
    let names_it = answer.text().await.unwrap().contains("damaged: work: complete: ");
    (if names_it { Ok(()) } else { Err(Anomaly::Unnamed) }, 2)
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

/// A worker asks for messages and hangs up before the answer. Its lease would last for an hour.
pub async fn worker_hangs_up(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let worker = |settings: &mut Settings| {
        settings.destinations += "[[destination]]\nname = \"work\"\n\
                                  url = \"http://127.0.0.1:1/\"\ntransform = { kind = \"worker\" }\n";
    };
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, worker).await;
    let verdict = async {
        let pod = &scenario.pods[0];
        let send = client().post(pod.url("/v1/destinations/work/messages")).body("1");
        assert_eq!(send.send().await.unwrap().status(), 202);
        let asked = json!({"destinations": ["work"], "lease_ms": 3_600_000});
        scenario.asks("/v1/leases", &asked.to_string()).await;
        scenario.until(async |_| pod.metric("reseq_claimed_total").await >= 1.0).await?;
        let mut leased = json!([]);
        scenario
            .until(async |_| {
                let answer = client().post(pod.url("/v1/leases")).json(&asked).send().await;
                let answer: Value = answer.unwrap().json().await.unwrap();
                leased = answer["leases"].clone();
                leased[0].is_object()
            })
            .await?;
        if leased[0]["attempt"] != 1 { Err(Anomaly::Repeated) } else { Ok(()) }
    }
    .await;
    (verdict, 1)
}

/// A client sends a message and shuts down its direction before the message is stamped.
pub async fn closes_its_direction(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let bodies = bodies(1);
    let verdict = async {
        scenario.control.catch("ingest.gathered");
        let mut stream = scenario.asks("/v1/destinations/orders/messages", &bodies[0]).await;
        let held = scenario.control.caught().await;
        stream.shutdown().await.unwrap();
        // After these requests, the pod has noticed that.
        for _ in 0..10 {
            let answer = client().get(scenario.pods[0].url("/healthz")).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
        held.go();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        if read.is_err() || !answer.starts_with("HTTP/1.1 202 ") {
            return Err(Anomaly::Unanswered);
        }
        scenario.settles_with(&bodies).await
    }
    .await;
    (verdict, 1)
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

/// A destination is created, delivers, and is removed.
pub async fn comes_and_goes(bug: Option<String>) -> Ended {
    let manners = Manners::default();
    let scenario = Scenario::start(bug.as_deref(), &[ALL], manners, SOON, short_leases).await;
    let path = scenario.pods[0].url("/v1/destinations/passing");
    let definition = json!({"url": "http://127.0.0.1:9/"});
    assert_eq!(client().put(&path).json(&definition).send().await.unwrap().status(), 201);
    let sent = client().post(format!("{path}/messages")).body("1").send().await.unwrap();
    assert_eq!(sent.status(), 202);
    let has_series = async |scenario: &Scenario| {
        let metrics = client().get(scenario.pods[0].url("/metrics")).send().await.unwrap();
        metrics.text().await.unwrap().contains("destination=\"passing\"")
    };
    let verdict = async {
        scenario.until(has_series).await?;
        let removed = client().delete(format!("{path}?force=true")).send().await.unwrap();
        assert_eq!(removed.status(), 200);
        scenario.until(async |scenario| !has_series(scenario).await).await
    }
    .await;
    (verdict, 1)
}
