//! Tests listing, showing and cancelling messages.

use serde_json::{Value, json};
use support::pods::client;

use super::{Service, each, said};
use crate::support;

#[tokio::test]
async fn pages_show_every_pending_message_once() {
    let service = Service::start().await;
    for ordering in ["destination", "key", "none"] {
        service.define_worker(ordering, ordering).await;
        for n in 1..=25 {
            let key = format!("k{}", n % 2);
            service.send(ordering, json!(n), json!({"key": key})).await;
        }
        service.lease(ordering, 5).await;
        let list = |query: String| {
            let path = format!("destinations/{ordering}/messages{query}");
            let service = &service;
            async move { service.get(&path).await.ok() }
        };
        let pages = |query: &'static str| async move {
            let (mut pages, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = list(format!("?{query}{cursor}")).await;
                pages.push(each(&page, "sequence").iter().map(|s| s.as_u64().unwrap()).collect());
                let Some(next) = page["next_cursor"].as_str() else { return pages };
                cursor = format!("&cursor={next}");
            }
        };
        let all = |pages: Vec<Vec<u64>>| {
            let mut seen = pages.concat();
            seen.sort_unstable();
            seen
        };
        assert_eq!(all(pages("limit=10").await), (1..=25).collect::<Vec<_>>(), "{ordering}");
        // A page that skipped many messages does not exceed its limit.
        let processing = pages("state=processing&limit=2").await;
        assert!(
            ordering == "key" || processing.iter().all(|page| page.len() <= 2),
            "{processing:?}"
        );
        assert_eq!(all(processing), [1, 2, 3, 4, 5], "{ordering}");
        let of_key = pages("state=waiting&key=k1&limit=2").await;
        assert!(of_key.iter().all(|page| page.len() <= 2), "{of_key:?}");
        assert_eq!(all(of_key), (7..=25).step_by(2).collect::<Vec<_>>(), "{ordering}");
        let waiting = list("?state=waiting&limit=1000".into()).await;
        assert_eq!(each(&waiting, "sequence").len(), 20, "{ordering}");
        let processing = list("?state=processing".into()).await;
        assert_eq!(each(&processing, "sequence").len(), 5, "{ordering}");
        let of_key = list("?key=k1".into()).await;
        assert_eq!(each(&of_key, "key"), vec![json!("k1"); 13], "{ordering}");
        let from = list("?from_sequence=24".into()).await;
        assert_eq!(each(&from, "sequence"), [24, 25], "{ordering}");
        let item = &from["items"][0];
        assert_eq!(item.get("priority").is_some(), ordering == "none", "{item}");
        assert!(item["age_ms"].is_u64() && item["withdrawing"] == false, "{item}");
    }
}

#[tokio::test]
async fn a_message_is_told_from_its_arrival_to_the_end_of_the_log() {
    let service = Service::start().await;
    service.define("crm", json!({"log_max": 2})).await;
    for n in 1..=4 {
        service.send("crm", json!({"n": n}), json!({"id": format!("id-{n}")})).await;
    }
    let path = |sequence: &str| format!("destinations/crm/messages/{sequence}");
    let pending = service.get(&path("3")).await.ok();
    assert_eq!((&pending["state"], &pending["body"]), (&json!("ready"), &json!({"n": 3})));
    assert_eq!((&pending["previous"], &pending["id"]), (&json!(2), &json!("id-3")));
    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(None).await, [1, 2, 3, 4]);
    let gone = service.get(&path("3")).await.ok();
    assert_eq!((&gone["state"], &gone["attempts"]), (&json!("delivered"), &json!(1)));
    assert_eq!((&gone["latency"]["delivery_ms"], &gone["dead_letter"]), (&json!(3), &json!(false)));
    assert!(gone["latency"]["total_ms"].is_u64() && gone["settled_at"].is_string(), "{gone}");
    let older = service.get(&path("2")).await;
    older.is_problem(404, "unknown_message", "log_max");
    let never = service.get(&path("5")).await;
    never.is_problem(404, "unknown_message", "never stamped; the last sequence is 4");
    service.get(&path("0")).await.is_problem(404, "unknown_message", "never stamped");
    service.get(&path("x")).await.is_problem(400, "invalid_field", "sequence");
}

#[tokio::test]
async fn a_cancelled_message_leaves_without_being_delivered() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({"key": "a"})).await;
    }
    let path = |sequence: u64| format!("destinations/crm/messages/{sequence}");
    let cancelled = json!({"sequence": 1, "state": "cancelled"});
    assert_eq!(service.delete(&path(1)).await.ok(), cancelled);
    // A client that lost the answer may repeat the request.
    assert_eq!(service.delete(&path(1)).await.ok(), cancelled);
    assert_eq!(service.get(&path(1)).await.ok()["state"], "cancelled");
    assert_eq!(service.lease("crm", 1).await[0]["sequence"], 2);
    // A leased message leaves only after its attempt has failed.
    let ordered = service.delete(&path(2)).await;
    assert_eq!((ordered.status, &ordered.body["state"]), (202, &json!("withdrawing")));

    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(Some("a")).await, [1]);
    let gone = service.delete(&path(1)).await;
    gone.is_problem(409, "wrong_state", "it was cancelled");
    let letters = service.get("destinations/crm/dead-letters").await.ok();
    assert_eq!(each(&letters, "sequence"), Vec::<u64>::new());
    service.delete(&path(9)).await.is_problem(404, "unknown_message", "never stamped");
    let stats = service.counts("crm").await;
    assert_eq!((&stats["cancelled_total"], &stats["pending"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn a_message_is_cancelled_by_its_idempotency_key() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service
        .define("brief", json!({"transform": {"kind": "worker"}, "idempotency_window_ms": 0}))
        .await;
    for name in ["crm", "brief"] {
        service.send(name, json!(1), json!({"idempotency_key": "order 7/ä"})).await;
        service.send(name, json!(2), json!({"idempotency_key": "other"})).await;
        let by_key = |key: &str| format!("destinations/{name}/messages?idempotency_key={key}");
        let unknown = service.delete(&by_key("nobody")).await;
        unknown.is_problem(404, "unknown_message", "idempotency key");
        let cancelled = service.delete(&by_key("order%207%2F%C3%A4")).await.ok();
        assert_eq!(cancelled, json!({"sequence": 1, "state": "cancelled"}), "{name}");
        assert_eq!(service.counts(name).await["waiting"], 1);
        let missing = service.delete(&format!("destinations/{name}/messages")).await;
        missing.is_problem(400, "invalid_field", "idempotency_key");
    }
}

#[tokio::test]
async fn dead_letter_is_found_by_its_sequence_without_a_log() {
    let service = Service::start().await;
    service.define("crm", json!({"log_max": 0})).await;
    for n in 1..=2 {
        service.send("crm", json!({"n": n}), json!({})).await;
    }
    service.post("destinations/crm/skip-head", json!({"sequence": 1})).await.ok();
    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(None).await, [1, 2]);
    let letter = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!((&letter["state"], &letter["body"]), (&json!("dead_lettered"), &json!({"n": 1})));
    let gone = service.get("destinations/crm/messages/2").await;
    gone.is_problem(404, "unknown_message", "the last 0 (log_max)");
    let gone = service.delete("destinations/crm/messages/1").await;
    gone.is_problem(409, "wrong_state", "it was dead_lettered");
}

#[tokio::test]
async fn a_definition_that_another_pod_has_changed_is_read_again() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({})).await;
    }
    service.halt_next("crm", "no").await;
    // Every change raises the version. The pod learns of it a little later.
    let name = "crm".parse().unwrap();
    for (at, delivery) in [true, false, true].into_iter().enumerate() {
        service.store.pause(&name, None, None, Some(delivery)).await.unwrap();
        match at {
            0 => service.post("destinations/crm/retry-head", json!({})).await.ok(),
            1 => service.delete("destinations/crm/messages/2").await.ok(),
            _ => service.post("destinations/crm/skip-head", json!({"sequence": 1})).await.ok(),
        };
    }
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!(shown["state"], "dead_lettered");
}

#[tokio::test]
async fn message_is_found_by_its_id_among_the_last_remembered() {
    let service = Service::start().await;
    let worker = json!({"kind": "worker"});
    let found =
        async |id: &str| service.get(&format!("destinations/erp/messages/by-id/{id}")).await;
    let send = async |n: u64, id: &str| service.send("erp", json!(n), json!({"id": id})).await;

    service.define("erp", json!({"transform": worker, "ids_max": 0})).await;
    send(1, "a").await;
    let answer = found("a").await;
    assert_eq!((answer.status, answer.body["code"].as_str()), (404, Some("unknown_message")));
    assert!(answer.body["detail"].as_str().unwrap().contains("ids_max is 0"), "{answer:?}");

    // An id may have any character. If two messages have the same id, the last one counts.
    service.define("erp", json!({"transform": worker, "ids_max": 3})).await;
    for (n, id) in [(2, "b"), (3, "ä/b c"), (4, "b")] {
        send(n, id).await;
    }
    assert_eq!(found("a").await.status, 404);
    assert_eq!(found("b").await.ok()["sequence"], 4);
    let shown = found("%C3%A4%2Fb%20c").await.ok();
    assert_eq!((&shown["id"], &shown["sequence"]), (&json!("ä/b c"), &json!(3)));
    assert_eq!((&shown["body"], &shown["previous"]), (&json!(3), &json!(2)));
    let by_command =
        service.said(&["messages", "show", "erp", "--id", "ä/b c", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&by_command).unwrap()["sequence"], 3);

    // A message is found after it has left, until newer ids have displaced it.
    service.post("destinations/erp/purge", json!({})).await.ok();
    assert_eq!(found("b").await.ok()["state"], "cancelled");
    send(5, "c").await;
    send(6, "d").await;
    assert_eq!(found("b").await.ok()["sequence"], 4);
    assert_eq!(found("%C3%A4%2Fb%20c").await.status, 404);
    send(7, "e").await;
    assert_eq!(found("b").await.status, 404);

    // By default, the last 1,000 are searched; nothing is stored for that. An index has the messages that come then.
    let key = service.store.keys().destination(&"erp".parse().unwrap()).ids();
    let ids =
        async || service.redis.ask::<Vec<String>>(&["ZRANGE", &key, "0", "-1"]).await.unwrap();
    service.define("erp", json!({"transform": worker})).await;
    assert_eq!(found("a").await.ok()["sequence"], 1);
    assert!(ids().await.is_empty());
    service.define("erp", json!({"transform": worker, "ids_max": 1001})).await;
    send(8, "f").await;
    assert_eq!((ids().await, found("a").await.status), (vec!["f".to_owned()], 404));
    assert_eq!(found("f").await.ok()["sequence"], 8);
    service.define("erp", json!({"transform": worker})).await;
    assert!(ids().await.is_empty());
}

#[tokio::test]
async fn id_is_found_in_all_destinations_that_the_token_may_read() {
    let service = Service::start().await;
    let worker = json!({"transform": {"kind": "worker"}});
    for name in ["erp", "crm", "mail"] {
        service.define(name, worker.clone()).await;
    }
    let message = json!({"destinations": ["erp", "crm"], "body": 1, "id": "order-7"});
    assert_eq!(service.post("messages", message).await.status, 202);
    service.send("mail", json!(1), json!({"id": "another"})).await;
    service.delete("destinations/crm/messages/1").await.ok();
    let found = service.get("messages/by-id/order-7").await.ok();
    let of =
        |at: usize| (&found["items"][at]["destination"], &found["items"][at]["message"]["state"]);
    assert_eq!((of(0).0, of(1)), (&json!("crm"), (&json!("erp"), &json!("waiting"))));
    assert_eq!(found["items"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(service.get("messages/by-id/nothing").await.ok(), json!({"items": []}));
    let said = service.said(&["messages", "find", "order-7"]).await;
    assert!(said.contains("erp 1 waiting") && said.lines().count() == 2, "{said}");
}

/// The reference states the memory of an id (`docs/reference/configuration.md`, `ids_max`).
#[tokio::test]
async fn an_id_costs_the_bytes_that_the_reference_says() {
    const COUNT: usize = 10_000;
    let service = Service::start().await;
    service.define("erp", json!({"transform": {"kind": "worker"}, "ids_max": COUNT})).await;
    let line = json!({"destinations": ["erp"], "body": 1}).to_string() + "\n";
    for _ in 0..COUNT / 1000 {
        let sent = client().post(service.pod.url("/v1/messages")).body(line.repeat(1000));
        let sent = said(sent.header("content-type", "application/x-ndjson")).await;
        assert_eq!(sent.status, 202, "{sent:?}");
    }
    let key = service.store.keys().destination(&"erp".parse().unwrap()).ids();
    let count: usize = service.redis.ask(&["ZCARD", &key]).await.unwrap();
    let bytes: usize = service.redis.ask(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).await.unwrap();
    println!("{} bytes for each of {count} ids of 36 bytes", bytes / count);
    assert_eq!(count, COUNT);
    assert!(bytes / count <= 150, "{} bytes an id", bytes / count);
}
