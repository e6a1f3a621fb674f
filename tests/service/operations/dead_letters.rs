//! Redriving and discarding dead letters.

use serde_json::{Value, json};

use super::{Service, each};

const LETTERS: &str = "destinations/crm/dead-letters";

/// Sends five messages. The last one stays. The others become dead letters before or after processing.
pub(super) async fn with_letters(service: &Service, definition: Value) {
    service.define("crm", definition).await;
    for n in 1..=5 {
        let key = format!("k{}", n % 2);
        let more = json!({"key": key, "id": format!("id-{n}"), "headers": {"x-n": n.to_string()}});
        service.send("crm", json!({"in": n}), more).await;
    }
    for (at, lease) in service.lease("crm", 4).await.iter().enumerate() {
        let token = &lease["token"];
        if at < 2 {
            service.fail(lease, &format!("broken pipe {at}"), true).await;
        } else {
            let items = json!([{"token": token, "body": {"out": at + 1}}]);
            assert_eq!(service.post("leases/complete", json!({"items": items})).await.status, 200);
        }
    }
    let hand = service.hand("crm").await;
    for sequence in 1..=4 {
        let known = super::known(&service.store, "crm").await;
        let messages = [(None, sequence)];
        let withdrawal = store::Withdrawal {
            how: domain::Tombstone::DeadLettered,
            reason: "given up",
            error: None,
            messages: &messages,
        };
        let who = store::Who::Owner(&hand.owner);
        service.store.withdraw(&known, who, &withdrawal).await.unwrap();
    }
    assert_eq!(hand.deliver(None).await, [1, 2, 3, 4]);
}

fn worker() -> Value {
    json!({"transform": {"kind": "worker"}})
}

#[tokio::test]
async fn dead_letters_are_listed_by_what_they_are_like() {
    let service = Service::start().await;
    with_letters(&service, worker()).await;
    let list = |query: &str| {
        let path = format!("{LETTERS}{query}");
        let service = &service;
        async move { service.get(&path).await.ok() }
    };
    let all = list("").await;
    assert_eq!(each(&all, "sequence"), [1, 2, 3, 4]);
    assert_eq!(all["next_cursor"], Value::Null);
    assert!(
        all["items"][0].get("body").is_none() && all["items"][0]["dead_lettered_at"].is_string()
    );
    for (query, found) in [
        ("?stage=delivery", vec![3, 4]),
        ("?key=k1", vec![1, 3]),
        ("?error=pipe%201", vec![2]),
        ("?error=given", vec![1, 2, 3, 4]),
        ("?from_sequence=3", vec![3, 4]),
        ("?stage=transform&key=k0", vec![2]),
    ] {
        assert_eq!(each(&list(query).await, "sequence"), found, "{query}");
    }
    let first = list("?limit=3").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(each(&list(&format!("?cursor={cursor}")).await, "sequence"), [4]);
    let whole = service.get(&format!("{LETTERS}/2")).await.ok();
    assert_eq!((&whole["body"], &whole["stage"]), (&json!({"in": 2}), &json!("transform")));
    assert_eq!((&whole["headers"], &whole["attempts"]), (&json!({"x-n": "2"}), &json!(1)));
    service.get(&format!("{LETTERS}/5")).await.is_problem(404, "unknown_message", "5");
}

#[tokio::test]
async fn redriven_letters_keep_order_and_are_not_processed_twice() {
    let service = Service::start().await;
    with_letters(&service, worker()).await;
    let path = format!("{LETTERS}/redrive");
    let dry = service.post(&path, json!({"all": true, "dry_run": true})).await.done();
    assert_eq!(dry, json!({"matched": 4, "affected": 0, "failed": 0, "gone": 0}));
    let error = json!({"filter": {"error": "pipe 1"}, "dry_run": true});
    assert_eq!(service.post(&path, error).await.done()["matched"], 1);
    assert_eq!(service.counts("crm").await["dead_letters"], 4);

    let some = service.post(&path, json!({"sequences": [3, 1, 77, 3]})).await.done();
    assert_eq!(
        (&some["affected"], &some["gone"], &some["failed"]),
        (&json!(2), &json!(1), &json!(0))
    );
    let moved = some["deliveries"].as_array().unwrap();
    let places: Vec<_> = moved.iter().map(|m| [&m["sequence"], &m["new_sequence"]]).collect();
    assert_eq!(json!(places), json!([[1, 6], [3, 7]]));
    let rest = service.post(&path, json!({"all": true})).await.done();
    assert_eq!(rest["affected"], 2);
    let again = service.post(&path, json!({"sequences": [1]})).await.done();
    assert_eq!((&again["affected"], &again["gone"]), (&json!(0), &json!(1)));
    assert_eq!(service.counts("crm").await["dead_letters"], 0);

    let of_input = service.get("destinations/crm/messages/6").await.ok();
    assert_eq!((&of_input["state"], &of_input["body"]), (&json!("waiting"), &json!({"in": 1})));
    let epoch = &moved[0]["epoch"];
    assert_eq!(of_input["origin"], json!({"destination": "crm", "epoch": epoch, "sequence": 1}));
    assert_eq!((&of_input["id"], &of_input["key"]), (&json!("id-1"), &json!("k1")));
    assert_eq!((&of_input["attempts"], &of_input["headers"]), (&json!(0), &json!({"x-n": "1"})));
    let of_output = service.get("destinations/crm/messages/7").await.ok();
    assert_eq!((&of_output["state"], &of_output["body"]), (&json!("ready"), &json!({"out": 3})));
    assert_eq!((&of_output["origin"]["sequence"], &of_output["errors"]), (&json!(3), &json!([])));
    let leased = service.lease("crm", 10).await;
    let bodies: Vec<_> = leased.iter().map(|lease| &lease["body"]["in"]).collect();
    assert_eq!(json!(bodies), json!([5, 1, 2]));
}

#[tokio::test]
async fn redrive_and_retry_of_all_keep_the_given_rate() {
    let service = Service::start().await;
    with_letters(&service, worker()).await;
    let path = format!("{LETTERS}/redrive");
    let request = json!({"all": true, "rate_per_second": 2});
    let begun_ms = service.store.server_time_ms().await.unwrap();
    let redriven = service.post(&path, request).await.ok();
    let took_ms = service.store.server_time_ms().await.unwrap() - begun_ms;
    assert_eq!((&redriven["state"], &redriven["affected"]), (&json!("succeeded"), &json!(4)));
    assert!(took_ms >= 1_000, "two, and two a second later: {took_ms} ms");

    let zero = service.post(&path, json!({"all": true, "rate_per_second": 0})).await;
    zero.is_problem(400, "invalid_field", "rate_per_second");
    let discard = json!({"all": true, "rate_per_second": 1});
    let discard = service.post(&format!("{LETTERS}/discard"), discard).await;
    discard.is_problem(400, "invalid_field", "only a redrive");
    let one = service.post("destinations/crm/retry-head", json!({"rate_per_second": 1})).await;
    one.is_problem(400, "invalid_field", "only with all");
    let all = json!({"all": true, "rate_per_second": 1});
    assert_eq!(service.post("destinations/crm/retry-head", all).await.ok()["affected"], 0);
}

#[tokio::test]
async fn redrive_stops_without_room_and_says_how_far_it_came() {
    let service = Service::start().await;
    let mut definition = worker();
    with_letters(&service, definition.clone()).await;
    definition["backlog_max"] = json!(3);
    service.define("crm", definition).await;
    let full = service.post(&format!("{LETTERS}/redrive"), json!({"all": true})).await;
    full.is_problem(429, "backlog_full", "2 were enqueued again");
    let stopped = &full.body["operation"];
    assert_eq!((&stopped["state"], &stopped["kind"]), (&json!("failed"), &json!("redrive")));
    assert_eq!((&stopped["affected"], &stopped["failed"]), (&json!(2), &json!(2)));
    let left = service.get(LETTERS).await.ok();
    assert_eq!(each(&left, "sequence"), [3, 4]);
}

#[tokio::test]
async fn letters_are_discarded_one_by_one_or_by_what_they_are_like() {
    let service = Service::start().await;
    with_letters(&service, worker()).await;
    let one = service.delete(&format!("{LETTERS}/1")).await.ok();
    assert_eq!(one, json!({"sequence": 1, "state": "discarded"}));
    let again = service.delete(&format!("{LETTERS}/1")).await;
    again.is_problem(404, "unknown_message", "1");
    let path = format!("{LETTERS}/discard");
    let dry = service.post(&path, json!({"filter": {"stage": "delivery"}, "dry_run": true})).await;
    let counts = |matched: u64, affected: u64| json!({"matched": matched, "affected": affected, "failed": 0, "gone": 0});
    assert_eq!(dry.done(), counts(2, 0));
    let filter = json!({"filter": {"stage": "delivery", "to_sequence": 3}});
    assert_eq!(service.post(&path, filter).await.done(), counts(1, 1));
    assert_eq!(service.post(&path, json!({"all": true})).await.done(), counts(2, 2));
    assert_eq!(service.counts("crm").await["dead_letters"], 0);
    // The log keeps the state of the message, and shows that it is no longer a dead letter.
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!((&shown["state"], &shown["dead_letter"]), (&json!("dead_lettered"), &json!(false)));
}
