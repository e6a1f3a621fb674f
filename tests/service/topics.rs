//! Tests defining, changing and listing topics, and publishing to them.

use std::sync::Arc;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use support::{
    gate::Point,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

use crate::support;

/// Two pods. The first one delivers. Their file has the destinations `erp`, `crm` and `small`
/// (for one message only), and the topic `fixed`.
struct Service {
    first: Pod,
    second: Pod,
    inbox: Arc<Inbox>,
    receiver: Receiver,
    _redis: TestRedis,
}

impl Service {
    async fn start() -> Service {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let url = format!("url = \"{}\"", receiver.url());
        let mut settings = Settings::new(redis.url())
            .destination("erp", &url)
            .destination("crm", &url)
            .destination("small", &format!("{url}\nbacklog_max = 1"));
        settings.destinations += "[[topic]]\nname = \"fixed\"\ndestinations = [\"erp\"]\n";
        let first = Pod::start("first", "ingest,processor,sender", &settings).await;
        let second = Pod::start("second", "ingest", &settings).await;
        Service { first, second, inbox, receiver, _redis: redis }
    }

    fn put(&self, topic: &str, definition: &Value) -> RequestBuilder {
        client().put(self.first.url(&format!("/v1/topics/{topic}"))).json(definition)
    }

    async fn define(&self, topic: &str, destinations: &[&str]) -> u16 {
        said(self.put(topic, &json!({"destinations": destinations}))).await.0
    }
}

async fn said(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
}

fn publish(pod: &Pod, item: &Value) -> RequestBuilder {
    client().post(pod.url("/v1/messages")).json(item)
}

/// The destinations that accepted the message, according to an answer, and whether each reported a
/// duplicate.
fn deliveries(answer: &Value) -> Vec<(&str, bool)> {
    let all = answer["deliveries"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter()
        .map(|one| (one["destination"].as_str().unwrap(), one["duplicate"] == json!(true)))
        .collect()
}

/// Destination, body and id of each delivery, sorted.
fn delivered(service: &Service) -> Vec<(String, String, String)> {
    let all = service.inbox.journal.all().into_iter();
    let mut all: Vec<_> =
        all.map(|one| (one.destination, one.body, one.headers.expect("over HTTP").id)).collect();
    all.sort();
    all
}

#[tokio::test]
async fn what_is_published_goes_to_all_destinations_and_pods_follow() {
    let service = Service::start().await;
    assert_eq!(service.define("orders", &["erp", "crm"]).await, 201);
    assert_eq!(service.define("orders", &["erp", "crm"]).await, 200);
    let shown = json!({"name": "orders", "destinations": ["erp", "crm"], "defined_in_file": false});
    let get = |pod: &Pod, path: &str| client().get(pod.url(path));
    assert_eq!(said(get(&service.second, "/v1/topics/orders")).await, (200, shown.clone()));
    let fixed = json!({"name": "fixed", "destinations": ["erp"], "defined_in_file": true});
    let list = json!({"items": [fixed, shown], "next_cursor": null});
    assert_eq!(said(get(&service.first, "/v1/topics")).await, (200, list));

    // A pod that does not know the topic yet asks Redis.
    let (status, answer) =
        said(publish(&service.second, &json!({"topic": "orders", "body": 1}))).await;
    assert_eq!((status, deliveries(&answer)), (202, vec![("erp", false), ("crm", false)]));
    let raw = client().post(service.second.url("/v1/topics/orders/messages"));
    let raw = raw.header("Reseq-Id", "mine").header("Idempotency-Key", "k").body("raw");
    let (status, answer) = said(raw.try_clone().unwrap()).await;
    assert_eq!((status, &answer["id"]), (202, &json!("mine")));
    assert_eq!(deliveries(&said(raw).await.1), [("erp", true), ("crm", true)]);
    let lines = [
        json!({"topic": "orders", "body": 2}),
        json!({"topic": "nowhere", "body": 3}),
        json!({"topic": "fixed", "body": 4}),
    ];
    let batch = client().post(service.second.url("/v1/messages"));
    let batch = batch.header("content-type", "application/x-ndjson");
    let text = batch.body(lines.map(|line| line.to_string()).join("\n")).send().await.unwrap();
    let text = text.text().await.unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(deliveries(&told[0]), [("erp", false), ("crm", false)]);
    assert_eq!(told[1]["code"], "unknown_topic");
    assert_eq!(deliveries(&told[2]), [("erp", false)]);
    service.inbox.journal.reaches(7).await;
    let all = delivered(&service);
    let of = |name: &str| -> Vec<_> {
        all.iter().filter(|one| one.0 == name).map(|one| (&*one.1, &*one.2)).collect()
    };
    // Each destination has a copy, with the same id.
    assert_eq!(of("crm").len(), 3);
    assert!(of("crm").iter().all(|copy| of("erp").contains(copy)), "{all:?}");

    assert_eq!(service.define("orders", &["crm"]).await, 200);
    eventually("the other pod follows a change", async || {
        let (_, answer) =
            said(publish(&service.second, &json!({"topic": "orders", "body": 5}))).await;
        if deliveries(&answer) == [("crm", false)] { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let remove = || client().delete(service.first.url("/v1/topics/orders"));
    assert_eq!(said(remove()).await, (200, json!({"removed": "orders"})));
    let (status, answer) = said(remove()).await;
    assert_eq!((status, &answer["code"]), (404, &json!("unknown_topic")));
    eventually("the other pod follows a removal", async || {
        let (status, answer) =
            said(publish(&service.second, &json!({"topic": "orders", "body": 6}))).await;
        if status == 404 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    // A topic that is created again is newer than every version that pods may still know.
    assert_eq!(service.define("orders", &["small"]).await, 201);
    let (_, answer) = said(publish(&service.first, &json!({"topic": "orders", "body": 7}))).await;
    assert_eq!(deliveries(&answer), [("small", false)]);
}

#[tokio::test]
async fn a_topic_that_cannot_be_is_refused_by_name() {
    let service = Service::start().await;
    let many: Vec<String> = (0..=100).map(|number| format!("d{number}")).collect();
    let cases = [
        ("orders", json!({}), 400, "invalid_field", "destinations"),
        ("orders", json!({"destinations": []}), 400, "invalid_field", "1 to 100"),
        ("orders", json!({"destinations": many}), 400, "invalid_field", "1 to 100"),
        ("orders", json!({"destinations": "erp"}), 400, "invalid_field", "destinations"),
        ("orders", json!({"destinations": ["erp", 7]}), 400, "invalid_field", "destinations[1]"),
        ("orders", json!({"destinations": ["E R P"]}), 400, "invalid_field", "destinations[0]"),
        ("orders", json!({"destinations": ["erp", "erp"]}), 400, "invalid_field", "twice"),
        ("orders", json!({"destinations": ["erp", "no"]}), 404, "unknown_destination", "no"),
        ("orders", json!({"destinations": ["erp"], "name": "x"}), 400, "invalid_field", "name"),
        ("orders", json!({"destinations": ["erp"], "colour": 1}), 400, "invalid_field", "colour"),
        ("O%20R", json!({"destinations": ["erp"]}), 400, "invalid_field", "O R"),
        ("fixed", json!({"destinations": ["crm"]}), 409, "defined_in_file", "fixed"),
    ];
    for (topic, definition, status, code, named) in cases {
        let (seen, answer) = said(service.put(topic, &definition)).await;
        assert_eq!((seen, &answer["code"]), (status, &json!(code)), "{definition} {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(named), "{answer}");
    }
    let (status, answer) = said(client().delete(service.first.url("/v1/topics/fixed"))).await;
    assert_eq!((status, &answer["code"]), (409, &json!("defined_in_file")));
    let (status, answer) = said(client().get(service.first.url("/v1/topics/orders"))).await;
    assert_eq!((status, &answer["code"]), (404, &json!("unknown_topic")));
}

#[tokio::test]
async fn batch_for_many_destinations_is_split_and_answered_in_order() {
    let redis = TestRedis::start().await;
    let owned: Vec<String> = (0..100).map(|number| format!("d{number}")).collect();
    let names: Vec<&str> = owned.iter().map(String::as_str).collect();
    let small = "url = \"http://127.0.0.1:1/\"\ntransform = { kind = \"worker\" }";
    let mut settings = names[1..]
        .iter()
        .fold(Settings::new(redis.url()), |settings, name| settings.destination(name, small))
        .destination(names[0], &format!("{small}\nbacklog_max = 95"));
    settings.destinations += &format!("[[topic]]\nname = \"all\"\ndestinations = {names:?}\n");
    let pod = Pod::start("reseq", "ingest", &settings).await;
    // More copies than a pod sends to Redis at once.
    let line = json!({"topic": "all", "body": 1}).to_string();
    let batch = client().post(pod.url("/v1/messages"));
    let batch = batch.header("content-type", "application/x-ndjson");
    let text = batch.body(vec![line; 110].join("\n")).send().await.unwrap();
    let text = text.text().await.unwrap();
    for (at, line) in text.lines().enumerate() {
        let answer: Value = serde_json::from_str(line).unwrap();
        // The backlog of one destination becomes full. After its first refusal, it refuses all later messages too.
        let (code, left_out) = match at {
            0..95 => (Value::Null, 0),
            95 => (json!("backlog_full"), 1),
            _ => (json!("aborted"), 1),
        };
        let told: Vec<&str> = deliveries(&answer).into_iter().map(|(name, _)| name).collect();
        assert_eq!((&answer["code"], &told[..]), (&code, &names[left_out..]), "line {at}");
        let deliveries = answer["deliveries"].as_array().unwrap();
        assert!(deliveries.iter().all(|one| one["sequence"] == at + 1), "{line}");
    }
    assert_eq!(text.lines().count(), 110);
}

#[tokio::test]
async fn republishing_completes_full_destination_without_doubles() {
    let service = Service::start().await;
    service.define("orders", &["erp", "small"]).await;
    service.inbox.gate.hold_only(&["small"], Point::Arrived);
    let filler = json!({"destinations": ["small"], "body": "filler"});
    assert_eq!(said(publish(&service.first, &filler)).await.0, 202);

    let order = json!({"topic": "orders", "body": "order", "idempotency_key": "k"});
    let (status, answer) = said(publish(&service.first, &order)).await;
    assert_eq!((status, &answer["code"]), (429, &json!("backlog_full")));
    assert_eq!(deliveries(&answer), [("erp", false)]);
    let (_, again) = said(publish(&service.second, &order)).await;
    assert_eq!(deliveries(&again), [("erp", true)]);
    service.inbox.gate.let_go();
    eventually("the rest is completed", async || {
        let (status, answer) = said(publish(&service.second, &order)).await;
        if status == 202 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let (_, answer) = said(publish(&service.first, &order)).await;
    assert_eq!(deliveries(&answer), [("erp", true), ("small", true)]);
    service.inbox.journal.reaches(3).await;
    let id = answer["id"].as_str().unwrap();
    let copy = |name: &str| (name.to_owned(), "\"order\"".to_owned(), id.to_owned());
    let orders: Vec<_> =
        delivered(&service).into_iter().filter(|one| one.1 != "\"filler\"").collect();
    assert_eq!(orders, [copy("erp"), copy("small")]);
}

#[tokio::test]
async fn removed_destination_fails_alone_and_completes_when_back() {
    let service = Service::start().await;
    let mine = service.first.url("/v1/destinations/mine");
    let make = || client().put(&mine).json(&json!({"url": service.receiver.url()}));
    assert_eq!(said(make()).await.0, 201);
    service.define("orders", &["mine", "erp"]).await;
    assert_eq!(said(client().delete(&mine)).await.0, 200);
    let order = json!({"topic": "orders", "body": 1, "idempotency_key": "k"});
    let (status, answer) = said(publish(&service.first, &order)).await;
    assert_eq!((status, &answer["code"]), (404, &json!("unknown_destination")));
    assert_eq!(deliveries(&answer), [("erp", false)]);
    assert_eq!(said(make()).await.0, 201);
    let (status, answer) = said(publish(&service.first, &order)).await;
    assert_eq!((status, deliveries(&answer)), (202, vec![("mine", false), ("erp", true)]));
    service.inbox.journal.reaches(2).await;
}
