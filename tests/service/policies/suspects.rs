//! Tests a message that crashes its worker each time. Only that message is given up, not messages
//! processed at the same time.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    policies::scenario::{Scenario, balanced},
    support::{
        http::{self, Answer},
        pods::{Pod, Settings},
        redis::TestRedis,
        wait::eventually,
    },
};

const STALLS_MAX: usize = 3;

/// The most leases of the guilty message, if `held` messages are processed together: the first lease, one
/// for each halving of the group, one that does not count yet, and the leases that count.
fn leases_max(held: usize) -> usize {
    1 + held.next_power_of_two().ilog2() as usize + 1 + STALLS_MAX
}

/// A worker process that leases with `calls` calls, of up to `max` messages each, and processes the messages. If the
/// guilty message is among them, it crashes, and is started again. Returns how often it held that message.
async fn worker(scenario: &Scenario, name: &str, calls: usize, max: usize) -> usize {
    let mut crashes = 0;
    loop {
        let mut held: Vec<Value> = Vec::new();
        for _ in 0..calls {
            let asked =
                json!({"destinations": [name], "max": max, "lease_ms": 600_000, "wait_ms": 100});
            let answer = scenario.ok("POST", "/v1/leases", asked).await;
            held.extend(answer["leases"].as_array().unwrap().clone());
        }
        if held.iter().any(|lease| lease["body"] == "guilty") {
            crashes += 1;
            leases_end(scenario, name, &held).await;
        } else if !held.is_empty() {
            let item = |lease: &Value| json!({"token": lease["token"], "drop": true});
            let items: Vec<Value> = held.iter().map(item).collect();
            scenario.ok("POST", "/v1/leases/complete", json!({"items": items})).await;
        }
        let stats =
            scenario.ok("GET", &format!("/v1/destinations/{name}/stats"), json!(null)).await;
        if stats["pending"] == 0 {
            return crashes;
        }
    }
}

/// Lets the leases of these messages expire.
async fn leases_end(scenario: &Scenario, name: &str, held: &[Value]) {
    let held: Vec<String> =
        held.iter().map(|lease| format!("{name}/{}/", lease["sequence"])).collect();
    let keys: Vec<String> = scenario.redis.ask(&["KEYS", "reseq:*:leases"]).await.unwrap();
    for key in keys {
        let members: Vec<String> = scenario.redis.ask(&["ZRANGE", &key, "0", "-1"]).await.unwrap();
        for member in members.iter().filter(|one| held.iter().any(|lease| one.starts_with(lease))) {
            scenario.redis.ask::<()>(&["ZADD", &key, "XX", "1", member]).await.unwrap();
        }
    }
}

/// `workers` processes handle 24 messages. The fourth message crashes them.
async fn worked_off(scenario: &Scenario, name: &str, fields: Value, held: (usize, usize, usize)) {
    let (workers, calls, max) = held;
    let mut definition = json!({"on_exhausted": "dead_letter"});
    definition.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
    definition["transform"] = json!({"kind": "worker", "stalls_max": STALLS_MAX});
    scenario.define(name, definition).await;
    for number in 1..=24 {
        let body = if number == 4 { "guilty".to_owned() } else { format!("innocent {number}") };
        let item = json!({"destinations": [name], "body": body, "key": (number % 9).to_string()});
        scenario.ok("POST", "/v1/messages", item).await;
    }
    let processes = (0..workers).map(|_| worker(scenario, name, calls, max));
    let crashes: usize = futures::future::join_all(processes).await.into_iter().sum();
    let stats = scenario.ok("GET", &format!("/v1/destinations/{name}/stats"), json!(null)).await;
    balanced(&stats);
    assert_eq!(
        (&stats["dead_letters"], &stats["dropped_total"]),
        (&json!(1), &json!(23)),
        "{stats}"
    );
    let letters = format!("/v1/destinations/{name}/dead-letters");
    let letters = scenario.ok("GET", &letters, json!(null)).await;
    assert_eq!(letters["items"][0]["sequence"], 4, "{letters}");
    let most = leases_max(workers * calls * max);
    assert!((STALLS_MAX..=most).contains(&crashes), "{crashes} crashes of {name}, at most {most}");
}

#[tokio::test]
async fn only_the_message_that_crashes_workers_is_given_up() {
    let scenario = Scenario::start(json!({})).await;
    tokio::join!(
        worked_off(&scenario, "batches", json!({}), (1, 1, 8)),
        worked_off(&scenario, "one-by-one", json!({"ordering": "key"}), (1, 8, 1)),
        worked_off(&scenario, "several", json!({"ordering": "none"}), (3, 2, 4)),
        worked_off(&scenario, "alone", json!({"ordering": "none"}), (1, 1, 1)),
    );
}

#[tokio::test]
async fn suspects_go_out_in_halves_and_others_pass_them() {
    let definition = json!({"ordering": "none", "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    scenario.send_all(&["1", "2", "3", "4"]).await;
    assert_eq!(scenario.lease(json!({"max": 4, "lease_ms": 100})).await.len(), 4);
    scenario.send_all(&["5"]).await;
    let sequences = |leases: &[Value]| -> Vec<u64> {
        leases.iter().map(|lease| lease["sequence"].as_u64().unwrap()).collect()
    };
    scenario.until("the leases have expired", |stats| stats["waiting"] == 5).await;
    let half = scenario.lease(json!({"max": 9})).await;
    assert_eq!(sequences(&half), [1, 2]);
    let other = scenario.lease(json!({"max": 9, "min": 1})).await;
    assert_eq!(sequences(&other), [5], "the other suspects wait for those");
    scenario.end("complete", &half, json!({"drop": true})).await;
    let rest = scenario.lease(json!({"max": 9, "min": 3, "wait_ms": 20_000})).await;
    assert_eq!(sequences(&rest), [3, 4], "suspects do not wait for more");
    // Their worker lives, so these messages are no longer suspects.
    scenario.end("fail", &rest, json!({"retry_ms": 0})).await;
    scenario.end("fail", &other, json!({"retry_ms": 0})).await;
    assert_eq!(sequences(&scenario.lease(json!({"max": 9})).await), [3, 4, 5]);
}

#[tokio::test]
async fn one_call_or_a_process_that_holds_one_gets_no_second_suspect() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.define("other", json!({"transform": {"kind": "worker"}})).await;
    let both = ["erp", "other"];
    for name in both {
        scenario.ok("POST", "/v1/messages", json!({"destinations": [name], "body": name})).await;
    }
    for _ in 0..2 {
        let held = async |name: &str| {
            let asked = json!({"destinations": [name], "lease_ms": 100, "wait_ms": 20_000});
            scenario.ok("POST", "/v1/leases", asked).await["leases"].as_array().unwrap().len()
        };
        assert_eq!((held("erp").await, held("other").await), (1, 1));
    }
    let asked = json!({"destinations": both, "max": 9, "wait_ms": 20_000});
    let first = scenario.ok("POST", "/v1/leases", asked.clone()).await["leases"].clone();
    assert_eq!((first.as_array().unwrap().len(), &first[0]["suspect"]), (1, &json!(true)));
    let mut second = asked;
    second["suspects"] = json!(false);
    second["wait_ms"] = json!(0);
    let none = scenario.ok("POST", "/v1/leases", second).await;
    assert_eq!(none["leases"], json!([]));
}

/// A pod with the role `processor`, and its transform service, which crashes the pod when it gets the guilty body.
#[tokio::test]
async fn a_message_that_crashes_processors_takes_no_other_with_it() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    settings.processor_lease_ms = 400;
    let (crash, answered) = (Arc::new(Notify::new()), Arc::new(Mutex::new(HashSet::new())));
    let (crashing, seen) = (crash.clone(), answered.clone());
    let (address, _server) = http::serve(move |request| {
        let (crash, seen) = (crashing.clone(), seen.clone());
        async move {
            if request.body.contains("guilty") {
                crash.notify_one();
                std::future::pending::<()>().await;
            }
            // Simulates work that is in progress when the process crashes.
            tokio::time::sleep(Duration::from_millis(150)).await;
            seen.lock().unwrap().insert(request.body.clone());
            Some(Answer::status(200))
        }
    })
    .await;
    let transform = format!(
        "ordering = \"none\"\ndelivery = {{ kind = \"none\" }}\non_exhausted = \"dead_letter\"\n\
         transform = {{ kind = \"http\", url = \"http://{address}/\", stalls_max = {STALLS_MAX} }}"
    );
    let settings = settings.destination("erp", &transform).destination("other", &transform);
    let main = Pod::start("main", "ingest,sender", &settings).await;
    for number in 0..12 {
        for name in ["erp", "other"] {
            let body = if number == 4 && name == "erp" {
                "guilty".into()
            } else {
                format!("{name} {number}")
            };
            let item = json!({"destinations": [name], "body": body}).to_string();
            let request = crate::support::pods::client().post(main.url("/v1/messages"));
            let request = request.header("content-type", "application/json").body(item);
            assert_eq!(request.send().await.unwrap().status(), 202);
        }
    }
    let mut processor = Pod::start("processor", "processor", &settings).await;
    let stats = async |name: &str| -> Value {
        let url = main.url(&format!("/v1/destinations/{name}/stats"));
        let answer = crate::support::pods::client().get(url).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    let mut crashes = 0;
    loop {
        let both = (stats("erp").await, stats("other").await);
        if both.0["pending"] == 0 && both.1["pending"] == 0 {
            break;
        }
        tokio::select! {
            () = crash.notified() => {
                processor.kill();
                crashes += 1;
                processor.restart().await;
            }
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
    eventually("all have their end", async || {
        let (erp, other) = (stats("erp").await, stats("other").await);
        let given_up = (&erp["dead_letters"], &other["dead_letters"]);
        if given_up == (&json!(1), &json!(0)) { Ok(()) } else { Err(format!("{erp} {other}")) }
    })
    .await;
    assert_eq!(answered.lock().unwrap().len(), 23);
    let most = leases_max(12);
    assert!((STALLS_MAX..=most).contains(&crashes), "{crashes} crashes, at most {most}");
}
