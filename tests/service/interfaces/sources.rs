//! Tests sources: each destination keeps the position of the last message of each, and stores nothing twice.

use serde_json::{Value, json};

use super::{Said, Service, position, said};

const ITEMS: &str = "/v1/messages";

fn item(position: &str, after: Option<&str>) -> Value {
    let source = json!({"name": "orders/3", "position": position, "after": after});
    json!({"destinations": ["erp"], "body": position, "source": source})
}

async fn send(service: &Service, position: &str, after: Option<&str>) -> Said {
    said(service.json(ITEMS, &item(position, after))).await
}

async fn marks(service: &Service, destination: &str) -> Value {
    let path = format!("/v1/destinations/{destination}/sources");
    said(service.get(&path)).await.body["items"].clone()
}

async fn mark_of(service: &Service, destination: &str, source: &str) -> Value {
    let path = format!("/v1/destinations/{destination}/sources?name={source}");
    said(service.get(&path)).await.body["items"].clone()
}

#[tokio::test]
async fn source_that_begins_again_stores_each_position_once_in_order() {
    let service = Service::start().await;
    assert_eq!(marks(&service, "erp").await, json!([]));
    let refused = send(&service, "0002", Some("0001")).await;
    refused.is_problem(409, "source_gap", "where it begins");
    assert_eq!(refused.body["mark"], Value::Null);
    assert_eq!(position(&send(&service, "0001", None).await.body), (1, false));
    assert_eq!(position(&send(&service, "0002", Some("0001")).await.body), (2, false));
    // Sent again, as after a crash: nothing is stored, and the position of the first is not known.
    for repeated in ["0001", "0002"] {
        let again = send(&service, repeated, None).await;
        assert_eq!((again.status, position(&again.body)), (202, (0, true)));
        assert_ne!(again.body["id"], Value::Null);
        assert!(again.body["deliveries"][0].get("id").is_none(), "{:?}", again.body);
    }
    let early = send(&service, "0004", Some("0003")).await;
    early.is_problem(409, "source_gap", "0002");
    assert_eq!(early.body["mark"], "0002");
    assert_eq!(marks(&service, "erp").await, json!([{"name": "orders/3", "mark": "0002"}]));
    // What nobody wants moves the mark alone.
    let source = json!({"name": "orders/3", "position": "0003", "after": "0002", "skip": true});
    let skipped = json!({"destinations": ["erp"], "source": source});
    assert_eq!(position(&said(service.json(ITEMS, &skipped)).await.body), (0, true));
    assert_eq!(position(&send(&service, "0004", Some("0003")).await.body), (3, false));
    service.inbox.journal.reaches(3).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["\"0001\"", "\"0002\"", "\"0004\""]);
}

#[tokio::test]
async fn each_destination_has_its_own_mark() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    send(&service, "1", None).await;
    let mut both = item("1", None);
    both["destinations"] = json!(["erp", "crm"]);
    let answer = said(service.json(ITEMS, &both)).await;
    let copies = answer.body["deliveries"].as_array().unwrap();
    let told: Vec<_> = copies.iter().map(|copy| (&copy["sequence"], &copy["duplicate"])).collect();
    assert_eq!(told, [(&json!(0), &json!(true)), (&json!(1), &json!(false))]);
    assert_eq!(marks(&service, "crm").await, marks(&service, "erp").await);
}

#[tokio::test]
async fn lines_of_a_batch_follow_each_other_and_a_key_tells_the_position() {
    let service = Service::start().await;
    let mut lines: Vec<Value> = [("1", None), ("2", Some("1")), ("4", Some("3")), ("3", Some("2"))]
        .map(|(position, after)| item(position, after))
        .into();
    for (line, key) in lines.iter_mut().zip(["a", "b", "c", "d"]) {
        line["idempotency_key"] = key.into();
    }
    let batch = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let send = async || {
        let sent = service.post(ITEMS, "application/x-ndjson", batch.clone()).send().await;
        let text = sent.unwrap().text().await.unwrap();
        let lines = text.lines().map(|line| {
            let told: Value = serde_json::from_str(line).unwrap();
            match told["code"].as_str() {
                Some(code) => format!("{code} {}", told["mark"]),
                None => format!("{:?}", position(&told)),
            }
        });
        lines.collect::<Vec<_>>()
    };
    let gap = "source_gap \"2\"";
    assert_eq!(send().await, ["(1, false)", "(2, false)", gap, "(3, false)"]);
    // Now the third line follows the mark.
    assert_eq!(send().await, ["(1, true)", "(2, true)", "(4, false)", "(3, true)"]);
    assert_eq!(send().await, ["(1, true)", "(2, true)", "(4, true)", "(3, true)"]);
    // A message that is refused moves no mark.
    let mut conflict = item("5", Some("4"));
    conflict["idempotency_key"] = "a".into();
    said(service.json(ITEMS, &conflict)).await.is_problem(422, "idempotency_conflict", "");
    assert_eq!(marks(&service, "erp").await, json!([{"name": "orders/3", "mark": "4"}]));
}

#[tokio::test]
async fn header_names_the_source_of_a_raw_body() {
    let service = Service::start().await;
    let raw = |header: &'static str| {
        service
            .post("/v1/destinations/erp/messages", "text/plain", "x")
            .header("reseq-source", header)
    };
    let first = said(raw(r#"name="a \"b\"", position="1""#)).await;
    assert_eq!(position(&first.body), (1, false));
    let wrong = said(raw(r#"name="a", position=1"#)).await;
    wrong.is_problem(400, "invalid_field", "Reseq-Source: write name=");
    let wrong = said(raw(r#"name="a", position="1", after="2""#)).await;
    wrong.is_problem(400, "invalid_field", "Reseq-Source: after: it must be before position");
    assert_eq!(marks(&service, "erp").await, json!([{"name": "a \"b\"", "mark": "1"}]));
}

#[tokio::test]
async fn sources_max_refuses_another_source_until_one_is_removed() {
    let service = Service::start().await;
    service.define("one", json!({"sources_max": 1})).await;
    let send = async |source: &str, position: &str| {
        let source = json!({"name": source, "position": position});
        let sent = json!({"destinations": ["one"], "body": 1, "source": source});
        said(service.json(ITEMS, &sent)).await
    };
    assert_eq!(send("a/1", "1").await.status, 202);
    send("b", "1").await.is_problem(409, "sources_full", "sources_max");
    assert_eq!(send("a/1", "2").await.status, 202);
    let remove = "/v1/destinations/one/sources?name=a%2F1";
    for removed in [true, false] {
        let told = said(service.delete(remove)).await;
        assert_eq!(told.body, json!({"name": "a/1", "removed": removed}));
    }
    assert_eq!(send("b", "1").await.status, 202);
    assert_eq!(marks(&service, "one").await, json!([{"name": "b", "mark": "1"}]));
    assert_eq!(mark_of(&service, "one", "b").await, json!([{"name": "b", "mark": "1"}]));
    assert_eq!(mark_of(&service, "one", "a%2F1").await, json!([]));
    let wrong = said(service.get("/v1/destinations/one/sources?name=")).await;
    wrong.is_problem(400, "invalid_field", "name");
    // A destination that is created again knows nothing of the sources of the one before.
    said(service.delete("/v1/destinations/one?force=true")).await;
    service.define("one", json!({})).await;
    assert_eq!(marks(&service, "one").await, json!([]));
}

#[tokio::test]
async fn why_says_how_far_the_sources_have_come() {
    let service = Service::start().await;
    service.define("one", json!({"transform": {"kind": "worker"}, "sources_max": 4})).await;
    let why = async || said(service.get("/v1/destinations/one/why")).await.body;
    assert_eq!(why().await["summary"], json!([]));
    let source = |name: &str, position: &str| json!({"name": name, "position": position});
    let skip = |name: &str, position: &str| {
        let mut source = source(name, position);
        source["skip"] = json!(true);
        json!({"destinations": ["one"], "source": source})
    };
    for (name, position) in [("b", "2"), ("a", "1"), ("c", "3")] {
        assert_eq!(said(service.json(ITEMS, &skip(name, position))).await.status, 202);
    }
    let three = "Messages of 3 sources have arrived: a up to 1, b up to 2, c up to 3.";
    let idle = why().await;
    let answer = (&idle["cause"], &idle["summary"], &idle["actions"][0]["command"]);
    assert_eq!(answer, (&json!("nothing"), &json!([three]), &json!("reseq sources list one")));

    let last = json!({"destinations": ["one"], "body": 1, "source": source("d", "4")});
    assert_eq!(said(service.json(ITEMS, &last)).await.status, 202);
    let four = "Messages of 4 sources have arrived: a up to 1, b up to 2, c up to 3, and 1 more. \
                A new source is refused (sources_max: 4).";
    let waits = why().await;
    assert_eq!((&waits["head"]["sequence"], &waits["summary"]), (&json!(1), &json!([four])));
}
