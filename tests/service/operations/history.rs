//! Tests the log, and replays from it.

use serde_json::{Value, json};

use super::{Service, each};
use crate::support::pods::client;

const REPLAY: &str = "destinations/crm/replay";

async fn delivered(service: &Service, count: u64, fields: Value) {
    service.define("crm", fields).await;
    for n in 1..=count {
        let more = json!({"id": format!("id-{n}"), "key": "k", "headers": {"x-n": n.to_string()}});
        service.send("crm", json!({"n": n}), more).await;
    }
    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(None).await, (1..=count).collect::<Vec<_>>());
}

#[tokio::test]
async fn log_pages_go_from_newest_and_do_not_move_while_read() {
    let service = Service::start().await;
    delivered(&service, 10, json!({})).await;
    let page = |cursor: String| {
        let path = format!("destinations/crm/log?limit=4{cursor}");
        let service = &service;
        async move { service.get(&path).await.ok() }
    };
    let first = page(String::new()).await;
    assert_eq!(each(&first, "sequence"), [10, 9, 8, 7]);
    assert_eq!(first["items"][0]["state"], "delivered");
    // Another message leaves between two pages.
    service.send("crm", json!("later"), json!({})).await;
    assert_eq!(service.hand_again("crm").await, [11]);
    let cursor = |page: &Value| format!("&cursor={}", page["next_cursor"].as_str().unwrap());
    let second = page(cursor(&first)).await;
    assert_eq!(each(&second, "sequence"), [6, 5, 4, 3]);
    let third = page(cursor(&second)).await;
    assert_eq!(
        (each(&third, "sequence"), &third["next_cursor"]),
        (vec![json!(2), json!(1)], &Value::Null)
    );
}

#[tokio::test]
async fn a_replay_arrives_anew_and_doubles_nothing_under_the_same_key() {
    let service = Service::start().await;
    delivered(&service, 6, json!({"log_bodies": true})).await;
    service.define_worker("lab", "destination").await;
    let dry =
        json!({"from_sequence": 2, "to_sequence": 4, "to_destination": "lab", "dry_run": true});
    let dry = service.post(REPLAY, dry).await.done();
    assert_eq!(
        dry,
        json!({"matched": 3, "affected": 0, "failed": 0, "duplicates": 0, "without_body": 0,
               "first_sequence": 2, "last_sequence": 4})
    );
    assert_eq!(service.counts("lab").await["pending"], 0);

    let whole = json!({"from_sequence": 2, "to_destination": "lab", "idempotency_key": "try 1"});
    let replayed = service.post(REPLAY, whole.clone()).await.done();
    assert_eq!((&replayed["affected"], &replayed["duplicates"]), (&json!(5), &json!(0)));
    assert_eq!((&replayed["first_sequence"], &replayed["last_sequence"]), (&json!(2), &json!(6)));
    let new = (&replayed["new_first_sequence"], &replayed["new_last_sequence"]);
    assert_eq!(new, (&json!(1), &json!(5)));
    let again = service.post(REPLAY, whole).await.done();
    assert_eq!((&again["affected"], &again["duplicates"]), (&json!(0), &json!(5)));
    let first = service.get("destinations/lab/messages/1").await.ok();
    assert_eq!((&first["body"], &first["headers"]), (&json!({"n": 2}), &json!({"x-n": "2"})));
    assert_eq!((&first["id"], &first["key"]), (&json!("id-2"), &json!("k")));
    assert_eq!(
        (&first["origin"]["destination"], &first["origin"]["sequence"]),
        (&json!("crm"), &json!(2))
    );

    // The key may be in a header, in the body, or in both. If in both, they must be equal.
    let replay = |key: &'static str, body: Value| {
        let request = client().post(service.pod.url(&format!("/v1/{REPLAY}"))).json(&body);
        request.header("Idempotency-Key", key).send()
    };
    let by_header = json!({"from_sequence": 2, "to_destination": "lab"});
    for (key, duplicates) in [("again", 0), ("again", 5), ("\"again\"", 5)] {
        let answer: Value = replay(key, by_header.clone()).await.unwrap().json().await.unwrap();
        assert_eq!(answer["duplicates"], duplicates, "{key}: {answer}");
    }
    let both = json!({"from_sequence": 2, "to_destination": "lab", "idempotency_key": "other"});
    assert_eq!(replay("again", both).await.unwrap().status(), 400);

    // Without a key, every request replays again. Here the target is the same destination.
    for new in [7, 13] {
        let same = service.post(REPLAY, json!({"from_time": "2020-01-01T00:00:00Z"})).await.done();
        assert_eq!((&same["affected"], &same["new_first_sequence"]), (&json!(6), &json!(new)));
    }
    let none = service.post(REPLAY, json!({"from_time": "2199-01-01T00:00:00+01:00"})).await.done();
    assert_eq!((&none["affected"], &none["first_sequence"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn a_replay_that_is_stopped_says_how_to_go_on_without_doubling() {
    let service = Service::start().await;
    delivered(&service, 5, json!({"log_bodies": true})).await;
    let narrow = json!({"transform": {"kind": "worker"}, "backlog_max": 2});
    service.define("lab", narrow).await;
    let into_lab = |more: Value| {
        let mut request = json!({"from_sequence": 2, "to_destination": "lab"});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let stopped = service.post(REPLAY, into_lab(json!({}))).await;
    stopped.is_problem(429, "backlog_full", "from_sequence = 4");
    let with_key = service.post(REPLAY, into_lab(json!({"idempotency_key": "k"}))).await;
    with_key.is_problem(429, "backlog_full", "0 were enqueued again, send the same again");
}

#[tokio::test]
async fn a_log_without_bodies_says_how_to_have_them() {
    let service = Service::start().await;
    delivered(&service, 2, json!({})).await;
    for dry_run in [true, false] {
        let answer = service.post(REPLAY, json!({"from_sequence": 1, "dry_run": dry_run})).await;
        answer.is_problem(409, "wrong_state", "log_bodies");
    }
    let path = "destinations/crm";
    service.define("crm", json!({"log_bodies": true})).await;
    service.send("crm", json!(3), json!({})).await;
    service.hand_again("crm").await;
    let replayed =
        service.post(&format!("{path}/replay"), json!({"from_sequence": 1})).await.done();
    assert_eq!((&replayed["affected"], &replayed["without_body"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn the_numbers_of_all_destinations_are_summed_up() {
    let service = Service::start().await;
    delivered(&service, 3, json!({})).await;
    service.define_worker("lab", "none").await;
    service.send("lab", json!(1), json!({})).await;
    service.send("crm", json!(1), json!({})).await;
    let stats = service.get("stats").await.ok();
    let totals = &stats["totals"];
    assert_eq!((&totals["pending"], &totals["delivered_total"]), (&json!(2), &json!(3)));
    assert_eq!(each(&stats, "name"), ["crm", "filed", "lab"]);
    let lab = &stats["items"][2];
    assert_eq!((&lab["waiting"], &lab["paused"]["delivery"]), (&json!(1), &json!(false)));
}
