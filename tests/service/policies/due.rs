//! Tests that due messages do not wait for other lanes, for a wake-up, or because a clock was ahead.

use domain::DestinationName;
use redis::RedisResult;
use serde_json::{Value, json};
use store::Keys;

use crate::{
    policies::scenario::{ERP, Scenario},
    support::{pods::client, wait::eventually},
};

/// The number of waiting lanes: more than one scan reads.
const LANES: usize = 300;
/// At most this many other messages are delivered before a due one: messages that were in flight or released.
const BEFORE_MAX: usize = 3;

/// A destination that delivers one lane at a time. The first message of lane `c` is `bad`, and one message of each
/// of many other lanes waits behind it.
async fn with_lanes(definition: Value) -> Scenario {
    let mut all = json!({"ordering": "key", "delivery": {"lanes_max": 1}});
    all.as_object_mut().unwrap().extend(definition.as_object().cloned().unwrap());
    let scenario = Scenario::start(all).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send("bad", json!({"key": "c"})).await;
    scenario.send("behind", json!({"key": "c"})).await;
    let item = |lane: usize| json!({"destinations": [ERP], "body": format!("other {lane}"), "key": format!("{lane}")});
    let lines: String = (0..LANES).map(|lane| format!("{}\n", item(lane))).collect();
    let request = client().post(scenario.pod.url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson").body(lines);
    assert_eq!(request.send().await.unwrap().status(), 202);
    scenario
}

/// The number of messages that the receiver accepted before this one.
async fn taken_before(scenario: &Scenario, body: &str) -> usize {
    let body = format!("\"{body}\"");
    eventually("the receiver has it", async || {
        let taken = scenario.receiver.bodies();
        taken.iter().position(|one| *one == body).ok_or_else(|| format!("{taken:?}"))
    })
    .await
}

/// The hint of lane `c`.
async fn hint_of_lane(scenario: &Scenario) -> Option<f64> {
    let hint: RedisResult<_> = scenario.redis.ask(&["ZSCORE", &scenario.key("lanes"), "c"]).await;
    hint.unwrap()
}

async fn is_withdrawing(scenario: &Scenario, sequence: u64) -> bool {
    let path = format!("/v1/destinations/{ERP}/messages/{sequence}");
    scenario.ok("GET", &path, Value::Null).await["withdrawing"] == true
}

fn releasable() -> String {
    let name: DestinationName = ERP.parse().unwrap();
    Keys::new("reseq", 64).destination(&name).partition.releasable()
}

#[tokio::test]
async fn lane_of_a_dead_letter_goes_on_before_other_lanes() {
    let scenario = with_lanes(json!({"on_exhausted": "dead_letter"})).await;
    scenario.receiver.refuse("\"bad\"", 422, None);
    scenario.steer("resume", json!({})).await;
    let before = taken_before(&scenario, "behind").await;
    assert!(before <= BEFORE_MAX, "{before} messages of other lanes were delivered before");
}

/// Holds the receiver's answers, lets lane `c` become due, and returns how many messages arrived before its head.
async fn taken_before_due_head(scenario: Scenario, is_refused: bool, retry: bool) -> usize {
    scenario.steer("resume", json!({})).await;
    eventually("its head is refused", async || match hint_of_lane(&scenario).await {
        Some(hint) if hint < 1e12 => Err(format!("hint {hint}")),
        None if is_refused => Err("no hint".to_owned()),
        _ => Ok(()),
    })
    .await;
    let gate = scenario.receiver.gate.write().await;
    scenario.receiver.accept("\"bad\"");
    let before = scenario.receiver.bodies().len();
    if retry {
        scenario.steer("retry-head", json!({"key": "c"})).await;
    }
    // The head is released, and waits only for the delivery in flight.
    eventually("the sender has the head", async || match hint_of_lane(&scenario).await {
        Some(hint) if (1.0..1e12).contains(&hint) => Ok(()),
        hint => Err(format!("hint {hint:?}")),
    })
    .await;
    drop(gate);
    taken_before(&scenario, "bad").await - before
}

#[tokio::test]
async fn lane_after_its_backoff_goes_before_other_lanes() {
    let delivery = json!({"lanes_max": 1, "backoff_ms": 1, "backoff_max_ms": 1});
    let scenario = with_lanes(json!({"delivery": delivery})).await;
    scenario.receiver.refuse("\"bad\"", 503, None);
    let before = taken_before_due_head(scenario, true, false).await;
    assert!(before <= BEFORE_MAX, "{before} messages of other lanes were delivered before");
}

#[tokio::test]
async fn lane_with_a_retried_head_goes_before_other_lanes() {
    let scenario = with_lanes(json!({"on_exhausted": "halt"})).await;
    scenario.receiver.refuse("\"bad\"", 422, None);
    let before = taken_before_due_head(scenario, false, true).await;
    assert!(before <= BEFORE_MAX, "{before} messages of other lanes were delivered before");
}

#[tokio::test]
async fn withdrawals_without_wake_ups_do_not_wait_for_a_backoff() {
    let hour = 3_600_000;
    let batch = json!({"batch_max": 2, "batch_linger_ms": 60_000, "timeout_ms": 60_000});
    let mut delivery = json!({"backoff_ms": hour, "backoff_max_ms": hour});
    delivery.as_object_mut().unwrap().extend(batch.as_object().cloned().unwrap());
    let scenario = Scenario::start(json!({"delivery": delivery})).await;
    scenario.receiver.refuse_all(Some((503, 1)));
    let gate = scenario.receiver.gate.write().await;
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.until("the first two are in flight", |stats| stats["delivering"] == 2).await;
    scenario.redis.ask::<()>(&["ACL", "SETUSER", "default", "resetchannels"]).await.unwrap();
    let path = format!("/v1/destinations/{ERP}/messages/2");
    let (status, answer) = scenario.ask("DELETE", &path, Value::Null).await;
    assert_eq!((status, &answer["state"]), (202, &json!("withdrawing")), "{answer}");
    drop(gate);
    eventually("it is cancelled", async || match is_withdrawing(&scenario, 2).await {
        true => Err("it is withdrawing".to_owned()),
        false => Ok(()),
    })
    .await;
    assert_eq!(scenario.stats().await["head"]["attempts"], 1, "the head backs off");
    scenario.send("four", json!({})).await;
    scenario.steer("skip-head", json!({"sequence": 1})).await;
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["cancelled_total"], &stats["delivered_total"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn purge_leaves_only_messages_that_are_in_flight() {
    let scenario = Scenario::start(json!({})).await;
    let gate = scenario.receiver.gate.write().await;
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.until("one is in flight", |stats| stats["delivering"] == 1).await;
    scenario.steer("purge", json!({})).await;
    eventually("only the first waits", async || {
        let mut all = Vec::new();
        for sequence in 1..=3 {
            all.push(is_withdrawing(&scenario, sequence).await);
        }
        if all == [true, false, false] { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    drop(gate);
    scenario.receives(&["one"]).await;
    assert_eq!(scenario.is_drained().await["cancelled_total"], 2);
}

/// A destination with this many lanes. All heads were refused, and are not due for a long time.
async fn with_lanes_in_backoff(lanes: usize) -> Scenario {
    let hour = 3_600_000;
    let delivery = json!({"lanes_max": 64, "backoff_ms": hour, "backoff_max_ms": hour,
        "retry_after_max_ms": 0, "breaker_failures": 0});
    let scenario = Scenario::start(json!({"ordering": "key", "delivery": delivery})).await;
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    let item = |lane: usize| json!({"destinations": [ERP], "body": "x", "key": format!("{lane}")});
    let lines: String = (0..lanes).map(|lane| format!("{}\n", item(lane))).collect();
    let request = client().post(scenario.pod.url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson").body(lines);
    assert_eq!(request.send().await.unwrap().status(), 202);
    all_back_off(&scenario, lanes).await;
    scenario
}

async fn all_back_off(scenario: &Scenario, lanes: usize) {
    eventually("all lanes back off", async || {
        let count = ["ZCOUNT", &scenario.key("lanes"), "1000000000000", "+inf"];
        let found: usize = scenario.redis.ask(&count).await.unwrap();
        if found == lanes { Ok(()) } else { Err(format!("{found} lanes")) }
    })
    .await;
}

/// The number of scans of any kind that Redis has answered.
async fn scans(scenario: &Scenario) -> String {
    let stats: String = scenario.redis.ask(&["INFO", "commandstats"]).await.unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_zrangebyscore:"));
    line.and_then(|line| line.split(',').next()).unwrap_or_default().to_owned()
}

/// Uses more lanes than one scan reads.
#[tokio::test]
async fn lanes_in_backoff_cause_no_scan_after_scan() {
    let scenario = with_lanes_in_backoff(LANES).await;
    scenario.send("one more", json!({"key": "more"})).await;
    all_back_off(&scenario, LANES + 1).await;
    // A poll comes once a second.
    eventually("nobody scans between a hundred commands", async || {
        let before = scans(&scenario).await;
        for number in 0..100 {
            let now = scans(&scenario).await;
            if now != before {
                return Err(format!("{now} after {number} commands, {before} before"));
            }
        }
        Ok(())
    })
    .await;
}

/// Redis's clock was ahead when the heads were refused.
#[tokio::test]
async fn late_lanes_are_all_corrected_at_once() {
    let lanes = 50;
    let scenario = with_lanes_in_backoff(lanes).await;
    let (now, _) = scenario.redis.ask::<(u64, u64)>(&["TIME"]).await.unwrap();
    let ahead = format!("{}000", now + 86_400);
    let keys: Vec<String> = (0..lanes).map(|lane| lane.to_string()).collect();
    let key = scenario.key("lanes");
    let mut words = vec!["ZADD", &key];
    keys.iter().for_each(|lane| words.extend([ahead.as_str(), lane]));
    scenario.redis.ask::<u64>(&words).await.unwrap();
    scenario.redis.ask::<u64>(&["ZADD", &releasable(), &ahead, ERP]).await.unwrap();
    eventually("no lane is late", async || {
        let late: u64 = scenario.redis.ask(&["ZCOUNT", &key, &ahead, "+inf"]).await.unwrap();
        if late == 0 { Ok(()) } else { Err(format!("{late} lanes are late")) }
    })
    .await;
}

/// Redis's clock was ahead when a head was refused, and is right again.
#[tokio::test]
async fn backoff_of_a_clock_that_was_ahead_is_clamped() {
    for ordering in ["destination", "key"] {
        let delivery = json!({"backoff_ms": 500, "backoff_max_ms": 500, "retry_after_max_ms": 0});
        let scenario = Scenario::start(json!({"ordering": ordering, "delivery": delivery})).await;
        scenario.receiver.refuse("\"bad\"", 503, None);
        scenario.send("bad", json!({"key": "c"})).await;
        scenario.until("it backs off", |stats| stats["head"]["attempts"].as_u64() > Some(0)).await;
        let (now, _) = scenario.redis.ask::<(u64, u64)>(&["TIME"]).await.unwrap();
        let tomorrow = now + 86_400;
        let ahead = format!("{tomorrow}000");
        let (lanes, releasable) = (scenario.key("lanes"), releasable());
        scenario.redis.ask::<u64>(&["ZADD", &releasable, &ahead, ERP]).await.unwrap();
        if ordering == "key" {
            scenario.redis.ask::<u64>(&["ZADD", &lanes, &ahead, "c"]).await.unwrap();
        }
        scenario.receiver.accept("\"bad\"");
        scenario.receives(&["bad"]).await;
        scenario.is_drained().await;
    }
}
