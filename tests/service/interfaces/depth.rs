//! Tests JSON that some parsers refuse: too deep, a number beyond a double, half of a surrogate pair.
//! Reseq refuses it where possible, and it never breaks an answer that contains other messages.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Service, said};
use crate::support::{pods::client, wait::within};

const ITEMS: &str = "/v1/messages";
const JSON: &str = "application/json";

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[tokio::test]
async fn json_that_nests_too_deeply_is_refused_at_every_door() {
    let service = Service::start().await;
    service.define("small", json!({})).await;
    let object = |levels: usize| r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
    let item = |body: &str| format!(r#"{{"destinations": ["small"], "body": {body}}}"#);
    let before = service.holds().await;
    for body in [nested(129), object(129)] {
        let answer = said(service.post(ITEMS, JSON, item(&body))).await;
        answer.is_problem(400, "invalid_field", "body: nests deeper than 128 levels");
        answer.is_problem(400, "invalid_field", "body_base64");
    }
    let mut stream = TcpStream::connect(service.pod.addresses.tcp(3)).await.unwrap();
    let frames = format!("{{\"body\": {}}}\n", nested(129));
    stream.write_all(frames.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut told = String::new();
    within("it is answered", stream.read_to_string(&mut told)).await.unwrap();
    assert!(told.starts_with("ERR invalid_field body: nests deeper than 128 levels"), "{told}");
    assert_eq!(service.holds().await, before);

    let lines = [item(&nested(128)), item(&nested(129)), item(&object(128)), item(r#""[[""#)];
    let batch = service.post(ITEMS, "application/x-ndjson", lines.join("\n"));
    let text = batch.send().await.unwrap().text().await.unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<&str> = told.iter().map(|one| one["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, ["ok", "invalid_field", "ok", "ok"]);
    service.inbox.journal.reaches(3).await;
}

#[tokio::test]
async fn a_raw_body_may_nest_as_deep_as_it_likes() {
    let service = Service::start().await;
    let deep = nested(400);
    let path = "/v1/destinations/erp/messages";
    assert_eq!(said(service.post(path, JSON, deep.clone())).await.status, 202);
    service.inbox.journal.reaches(1).await;
    assert_eq!(service.inbox.journal.all()[0].body, deep);
}

#[tokio::test]
async fn message_that_parsers_refuse_breaks_no_other_lease() {
    let service = Service::start().await;
    service.define("small", json!({"transform": {"kind": "worker"}, "ordering": "none"})).await;
    let raw = "/v1/destinations/small/messages";
    let odd: [Vec<u8>; 5] = [
        nested(400).into(),
        nested(126).into(),
        "[1, 1e999]".into(),
        r#"{"a": "\ud800"}"#.into(),
        b"\"\xff\"".to_vec(),
    ];
    for body in &odd {
        assert_eq!(said(service.post(raw, JSON, body.clone())).await.status, 202);
        let good = service.post(raw, JSON, r#"{"good": 1.0}"#);
        assert_eq!(said(good).await.status, 202);
    }
    // Sends it over TCP, as bytes with a JSON content type.
    let frame = json!({"body_base64": STANDARD.encode(nested(300)), "content_type": JSON});
    let mut stream = TcpStream::connect(service.pod.addresses.tcp(3)).await.unwrap();
    stream.write_all(format!("{frame}\n").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut told = String::new();
    within("it is answered", stream.read_to_string(&mut told)).await.unwrap();
    assert_eq!(told, "OK 11\n");

    let shown = |sequence: u64| {
        let path = format!("/v1/destinations/small/messages/{sequence}");
        client().get(service.pod.url(&path))
    };
    for (at, body) in odd.iter().enumerate() {
        let shown = said(shown(2 * at as u64 + 1)).await.body;
        assert_eq!(shown["body_base64"], json!(STANDARD.encode(body)), "{shown}");
    }
    assert_eq!(said(shown(2)).await.body["body"], json!({"good": 1.0}));

    let request = json!({"destinations": ["small"], "max": 20, "lease_ms": 60000});
    // The test parses it with limits, like a worker's parser.
    let leased = said(service.json("/v1/leases", &request)).await.body;
    let leases = leased["leases"].as_array().expect("a worker can read the answer");
    assert_eq!(leases.len(), 11);
    for lease in leases {
        let sequence = lease["sequence"].as_u64().unwrap() as usize;
        let body = match sequence {
            11 => nested(300).into_bytes(),
            odd_one if odd_one % 2 == 1 => odd[odd_one / 2].clone(),
            _ => {
                assert_eq!(lease["body"], json!({"good": 1.0}), "{lease}");
                continue;
            }
        };
        assert_eq!(lease["body_base64"], json!(STANDARD.encode(body)), "{lease}");
        assert_eq!((lease["body"].is_null(), &lease["content_type"]), (true, &json!(JSON)));
    }
}

#[tokio::test]
async fn checkpoint_that_parsers_refuse_is_refused_without_change() {
    let service = Service::start().await;
    service.define("small", json!({"transform": {"kind": "worker"}})).await;
    let raw = "/v1/destinations/small/messages";
    assert_eq!(said(service.post(raw, JSON, "1")).await.status, 202);
    let lease = json!({"destinations": ["small"], "wait_ms": 1000, "lease_ms": 60000});
    let leased = said(service.json("/v1/leases", &lease)).await.body;
    let token = leased["leases"][0]["token"].clone();
    let extend = |checkpoint: &str| {
        let body = format!(
            r#"{{"items": [{{"token": {token}, "lease_ms": 60000, "checkpoint": {checkpoint}}}]}}"#
        );
        said(service.post("/v1/leases/extend", JSON, body))
    };
    assert_eq!(extend(&nested(100)).await.status, 200);
    for odd in [nested(400).as_str(), "[1e999]", r#""\udc00""#] {
        extend(odd).await.is_problem(400, "invalid_field", "items[0].checkpoint");
    }
    let fail = json!({"items": [{"token": token, "error": "again", "retry_ms": 0}]});
    assert_eq!(said(service.json("/v1/leases/fail", &fail)).await.status, 200);
    let again = said(service.json("/v1/leases", &lease)).await.body;
    let checkpoint = &again["leases"][0]["checkpoint"];
    assert_eq!(checkpoint.to_string(), nested(100), "{again}");
}
