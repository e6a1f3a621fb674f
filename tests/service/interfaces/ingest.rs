//! `POST /v1/messages` and `POST /v1/destinations/{d}/messages`.

use std::sync::Arc;

use futures::stream;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{BATCH_MAX, BODY_MAX, Service, position, said};
use crate::support::{
    checker::stats,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::{eventually, within},
};

const ITEMS: &str = "/v1/messages";
const RAW: &str = "/v1/destinations/erp/messages";
const JSON: &str = "application/json";

#[tokio::test]
async fn invalid_message_is_refused_by_name_and_leaves_nothing() {
    let service = Service::start().await;
    let long = "x".repeat(BODY_MAX);
    let item = |more: Value| {
        let mut item = json!({"destinations": ["erp"], "body": 1});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item.to_string()
    };
    let cases: Vec<(&str, &str, String, u16, &str, &str)> = vec![
        (
            ITEMS,
            JSON,
            item(json!({"destinations": ["nowhere"]})),
            404,
            "unknown_destination",
            "nowhere",
        ),
        (
            ITEMS,
            JSON,
            item(json!({"destinations": ["E R P"]})),
            404,
            "unknown_destination",
            "E R P",
        ),
        (
            ITEMS,
            JSON,
            item(json!({"destinations": ["{p01}"]})),
            404,
            "unknown_destination",
            "{p01}",
        ),
        (ITEMS, JSON, item(json!({"destinations": "erp"})), 400, "invalid_field", "destinations"),
        (ITEMS, JSON, item(json!({"destinations": []})), 400, "invalid_field", "destinations"),
        (ITEMS, JSON, item(json!({"destinations": ["erp", "erp"]})), 400, "invalid_field", "erp"),
        (
            ITEMS,
            JSON,
            item(json!({"destinations": ["erp", 7]})),
            400,
            "invalid_field",
            "destinations[1]",
        ),
        (ITEMS, JSON, r#"{"destinations": ["erp"]}"#.into(), 400, "invalid_field", "body"),
        (ITEMS, JSON, item(json!({"colour": "red"})), 400, "invalid_field", "colour"),
        (ITEMS, JSON, item(json!({"key": 7})), 400, "invalid_field", "key"),
        (ITEMS, JSON, item(json!({"key": "k".repeat(257)})), 400, "invalid_field", "key"),
        (ITEMS, JSON, item(json!({"key": "a\r\nb"})), 400, "invalid_field", "key"),
        (ITEMS, JSON, item(json!({"id": "i".repeat(129)})), 400, "invalid_field", "id"),
        (
            ITEMS,
            JSON,
            item(json!({"idempotency_key": "\u{0}"})),
            400,
            "invalid_field",
            "idempotency_key",
        ),
        (
            ITEMS,
            JSON,
            item(json!({"headers": {"authorization": "x"}})),
            400,
            "invalid_field",
            "headers.authorization",
        ),
        (
            ITEMS,
            JSON,
            item(json!({"headers": {"x-a": "1\r\nx-b: 2"}})),
            400,
            "invalid_field",
            "headers.x-a",
        ),
        (ITEMS, JSON, item(json!({"body_base64": "AA=="})), 400, "invalid_field", "body_base64"),
        (ITEMS, JSON, item(json!({"delay_ms": 31_536_000_001u64})), 400, "invalid_field", "year"),
        (ITEMS, JSON, item(json!({"due_at": "soon"})), 400, "invalid_field", "RFC 3339"),
        (
            ITEMS,
            JSON,
            item(json!({"due_at": "9999-01-01T00:00:00Z"})),
            400,
            "invalid_field",
            "due_at",
        ),
        (
            ITEMS,
            JSON,
            item(json!({"due_at": "2026-01-01T00:00:00Z", "delay_ms": 5})),
            400,
            "invalid_field",
            "not both",
        ),
        (ITEMS, JSON, item(json!({"priority": 10})), 400, "invalid_field", "0 to 9"),
        (ITEMS, JSON, item(json!({"priority": 5})), 400, "invalid_field", "ordering"),
        (
            ITEMS,
            JSON,
            r#"{"topic": "nowhere", "body": 1}"#.into(),
            404,
            "unknown_topic",
            "/v1/topics/nowhere",
        ),
        (ITEMS, JSON, r#"{"topic": "N O", "body": 1}"#.into(), 404, "unknown_topic", "N O"),
        ("/v1/topics/nowhere/messages", "", "x".into(), 404, "unknown_topic", "nowhere"),
        ("/v1/topics/N%20O/messages", "", "x".into(), 404, "unknown_topic", "N O"),
        (ITEMS, JSON, item(json!({"delay_ms": -5})), 400, "invalid_field", "delay_ms"),
        (ITEMS, JSON, item(json!({"topic": "t"})), 400, "invalid_field", "topic"),
        (
            ITEMS,
            JSON,
            r#"{"destinations": ["erp"], "body_base64": "?!"}"#.into(),
            400,
            "invalid_field",
            "body_base64",
        ),
        (ITEMS, JSON, "[1]".into(), 400, "invalid_field", "object"),
        (ITEMS, JSON, "7".into(), 400, "invalid_field", "object"),
        (ITEMS, JSON, "not json".into(), 400, "invalid_json", ""),
        (ITEMS, JSON, String::new(), 400, "invalid_json", ""),
        (ITEMS, JSON, r#"{"destinations": ["erp"], "body": "#.into(), 400, "invalid_json", ""),
        (ITEMS, JSON, item(json!({})) + " and more", 400, "invalid_json", ""),
        (ITEMS, JSON, item(json!({"body": long})), 413, "body_too_large", "1000"),
        (ITEMS, JSON, " ".repeat(BATCH_MAX + 1), 413, "body_too_large", "4000"),
        (ITEMS, "application/x-ndjson", " ".repeat(BATCH_MAX + 1), 413, "body_too_large", "4000"),
        (ITEMS, "application/x-ndjson", "\n \n".into(), 400, "invalid_json", "batch"),
        (ITEMS, "text/plain", item(json!({})), 415, "unsupported_media_type", JSON),
        (ITEMS, "", item(json!({})), 415, "unsupported_media_type", JSON),
        (RAW, "text/plain", long.clone() + "y", 413, "body_too_large", "1000"),
        (
            "/v1/destinations/nowhere/messages",
            "",
            "x".into(),
            404,
            "unknown_destination",
            "nowhere",
        ),
        (
            "/v1/destinations/E%20R%20P/messages",
            "",
            "x".into(),
            404,
            "unknown_destination",
            "E R P",
        ),
        ("/v1/destinations/..%2Ferp/messages", "", "x".into(), 404, "unknown_destination", ""),
        ("/v1/destinations/%00/messages", "", "x".into(), 404, "unknown_destination", ""),
        ("/v1/destinations/%FF/messages", "", "x".into(), 400, "invalid_request", "UTF-8"),
        ("/v1/destinations/erp/message", "", "x".into(), 404, "not_found", ""),
        ("/v2/messages", JSON, item(json!({})), 404, "not_found", ""),
        ("/", "", String::new(), 404, "not_found", ""),
    ];
    let before = service.holds().await;
    for (path, content_type, body, status, code, named) in cases {
        let shown = &body[..body.len().min(80)];
        println!("{path} {content_type} {shown}");
        said(service.post(path, content_type, body)).await.is_problem(status, code, named);
        assert_eq!(service.holds().await, before, "{path} changed something");
    }
    let headers: [(&str, &[u8], &str); 12] = [
        ("Reseq-Delay", b"1500", "Reseq-Delay: a delay is a number with a unit"),
        ("Reseq-Delay", b"-1s", "Reseq-Delay: a delay is a number with a unit"),
        ("Reseq-Delay", b"366d", "Reseq-Delay: a message may be delayed for a year"),
        ("Reseq-Due-At", b"tomorrow", "Reseq-Due-At: a time is written as in RFC 3339"),
        ("Reseq-Due-At", b"9999-01-01T00:00:00Z", "Reseq-Due-At: a message may be"),
        ("Reseq-Priority", b"3", "ordering is \"none\""),
        ("Reseq-Priority", b"10", "Reseq-Priority: a priority is a digit"),
        ("Reseq-Priority", b"high", "Reseq-Priority: a priority is a digit"),
        ("Reseq-Key", b"%FF", "Reseq-Key"),
        ("Reseq-Id", b"", "Reseq-Id"),
        ("Idempotency-Key", &[b'i'; 257], "Idempotency-Key"),
        ("X-Tenant", b"\xFF", "x-tenant"),
    ];
    for (name, value, named) in headers {
        let value = reqwest::header::HeaderValue::from_bytes(value).unwrap();
        let request = service.post(RAW, "text/plain", "x").header(name, value);
        said(request).await.is_problem(400, "invalid_field", named);
    }
    let both = service.post(RAW, "text/plain", "x").header("Reseq-Delay", "1s");
    let both = both.header("Reseq-Due-At", "2026-01-01T00:00:00Z");
    said(both).await.is_problem(400, "invalid_field", "not both");
    assert_eq!(service.holds().await, before);
}

#[tokio::test]
async fn delays_and_priorities_are_taken_where_they_can_be() {
    let service = Service::start().await;
    service.define("any", json!({"ordering": "none"})).await;
    let raw = |name: &'static str, value: &'static str| {
        service.post("/v1/destinations/any/messages", "text/plain", value).header(name, value)
    };
    let headers = [
        ("Reseq-Delay", "1ms"),
        ("Reseq-Due-At", "2020-01-01T00:00:00+01:00"),
        ("Reseq-Priority", "9"),
    ];
    for ((name, value), sequence) in headers.into_iter().zip(1..) {
        let said = said(raw(name, value)).await;
        assert_eq!((said.status, position(&said.body)), (202, (sequence, false)), "{name}");
    }
    let item = json!({"destinations": ["any"], "body": "all", "delay_ms": 1, "priority": 0});
    assert_eq!(said(service.json(ITEMS, &item)).await.status, 202);
    // Only one of two destinations accepts a priority. It stores the message; the answer says why
    // the other does not.
    let item = json!({"destinations": ["any", "erp"], "body": 1, "priority": 0});
    let refused = said(service.json(ITEMS, &item)).await;
    refused.is_problem(400, "invalid_field", "ordering");
    assert_eq!(refused.body["deliveries"][0]["destination"], "any");
}

#[tokio::test]
async fn a_body_without_a_length_is_measured_while_it_comes() {
    let service = Service::start().await;
    let before = service.holds().await;
    let address = &service.pod.url("")["http://".len()..];
    for path in [RAW, ITEMS] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {JSON}\r\n\
             transfer-encoding: chunked\r\n\r\n1388\r\n"
        );
        // The body never ends. The service must not wait for its end.
        stream.write_all((head + &" ".repeat(0x1388)).as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        let _ = within("the request is answered, and the connection closed", read).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("\"code\":\"body_too_large\""), "{answer}");
    }
    assert_eq!(service.holds().await, before);
    let pieces = ["ab", "cd"].map(Ok::<_, std::io::Error>);
    let body = reqwest::Body::wrap_stream(stream::iter(pieces));
    assert_eq!(said(service.post(RAW, "text/plain", body)).await.status, 202);
    service.inbox.journal.reaches(1).await;
    assert_eq!(service.inbox.journal.all()[0].body, "abcd");
}

#[tokio::test]
async fn long_bodies_arrive_whole_with_and_without_a_length() {
    let redis = TestRedis::start().await;
    let (inbox, mut settings) = (Arc::new(Inbox::default()), Settings::new(redis.url()));
    let receiver = Receiver::http(&inbox).await;
    // The memory budget is enough for one body at a time.
    settings.ingest = "bytes_in_flight_max = 1048576".into();
    let settings = settings.destination("erp", &format!("url = \"{}\"", receiver.url()));
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let text = |letter: &str| letter.repeat(700_000);
    let sending = ["a", "b", "c", "d"].map(|letter| {
        let body = match letter {
            "a" | "b" => text(letter).into(),
            _ => {
                let pieces = [
                    Ok::<_, std::io::Error>(text(letter)[..9].to_owned()),
                    Ok(text(letter)[9..].to_owned()),
                ];
                reqwest::Body::wrap_stream(stream::iter(pieces))
            }
        };
        said(client().post(pod.url(RAW)).header("content-type", "text/plain").body(body))
    });
    let all = within("all are taken", futures::future::join_all(sending)).await;
    assert!(all.iter().all(|said| said.status == 202));
    inbox.journal.reaches(4).await;
    let mut bodies: Vec<String> = inbox.journal.all().into_iter().map(|one| one.body).collect();
    bodies.sort();
    assert!(bodies == ["a", "b", "c", "d"].map(text), "{:?}", bodies.iter().map(String::len));
}

#[tokio::test]
async fn a_path_does_not_take_the_wrong_method() {
    let service = Service::start().await;
    let client = crate::support::pods::client();
    for (method, path) in [
        ("GET", ITEMS),
        ("DELETE", ITEMS),
        ("PUT", RAW),
        ("PATCH", "/v1/topics/orders"),
        ("POST", "/v1/destinations/erp"),
        ("POST", "/v1/destinations"),
        ("PUT", "/v1/leases"),
        ("POST", "/healthz"),
    ] {
        let request = client.request(method.parse().unwrap(), service.pod.url(path));
        said(request).await.is_problem(405, "method_not_allowed", "method");
    }
}

#[tokio::test]
async fn bad_line_of_a_batch_fails_alone_and_others_keep_order() {
    let service = Service::start().await;
    let good = |number: u64| json!({"destinations": ["erp"], "body": number}).to_string();
    let lines = [
        good(1),
        "not json".into(),
        good(2),
        json!({"destinations": ["nowhere"], "body": 0}).to_string(),
        json!({"destinations": ["erp"], "body": "x".repeat(BODY_MAX)}).to_string(),
        json!({"destinations": ["erp"], "body": 0, "colour": "red"}).to_string(),
        good(3),
    ];
    let request = service.post(ITEMS, "application/x-ndjson", lines.join("\n"));
    let answer = request.send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"] == "application/x-ndjson"),
        (202, true)
    );
    let text = answer.text().await.unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<String> = told
        .iter()
        .map(|one| match one["code"].as_str() {
            Some(code) => format!("{} {code}", one["status"]),
            None => format!("{:?}", position(one)),
        })
        .collect();
    let expected = [
        "(1, false)",
        "400 invalid_json",
        "(2, false)",
        "404 unknown_destination",
        "413 body_too_large",
        "400 invalid_field",
        "(3, false)",
    ];
    assert_eq!(told, expected);
    service.inbox.journal.reaches(3).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
}

#[tokio::test]
async fn idempotency_key_stamps_once_and_refuses_another_body() {
    let service = Service::start().await;
    let item = |body: Value| json!({"destinations": ["erp"], "body": body, "idempotency_key": "k"});
    let first = said(service.json(ITEMS, &item(json!(1)))).await;
    assert_eq!((first.status, position(&first.body)), (202, (1, false)));
    service.inbox.journal.reaches(1).await;
    let again = said(service.json(ITEMS, &item(json!(1)))).await;
    assert_eq!((again.status, position(&again.body)), (202, (1, true)));
    assert_eq!(again.body["deliveries"][0]["epoch"], first.body["deliveries"][0]["epoch"]);
    assert_eq!(again.body["id"], first.body["id"], "a duplicate is told the id that is delivered");
    // The other route uses the same keys.
    let raw = service.post(RAW, JSON, "1").header("Idempotency-Key", "k");
    assert_eq!(position(&said(raw).await.body), (1, true));
    let other = service.post(RAW, JSON, "2").header("Idempotency-Key", "k");
    said(other).await.is_problem(422, "idempotency_conflict", "new key");
    said(service.json(ITEMS, &item(json!(2)))).await.is_problem(422, "idempotency_conflict", "");
    let batch = ["x", "x"]
        .map(|key| json!({"destinations": ["erp"], "body": 3, "idempotency_key": key}).to_string());
    let twice = service.post(ITEMS, "application/x-ndjson", batch.join("\n"));
    let text = twice.send().await.unwrap().text().await.unwrap();
    let places: Vec<_> =
        text.lines().map(|line| position(&serde_json::from_str(line).unwrap())).collect();
    assert_eq!(places, [(2, false), (2, true)]);
    service.inbox.journal.reaches(2).await;
    assert_eq!(stats(&service.pod, "erp").await.unwrap()["last_sequence"], 2);
    assert_eq!(service.inbox.journal.all().len(), 2);
}

#[tokio::test]
async fn comparing_keys_alone_makes_another_body_a_repeat() {
    let service = Service::start().await;
    let definition = json!({"delivery": {"kind": "pull"}, "idempotency_compare": "key"});
    let defined = client().put(service.pod.url("/v1/destinations/cdc")).json(&definition);
    assert_eq!(said(defined).await.status, 201);
    let route = RAW.replace("erp", "cdc");
    let send = |body: &'static str| service.post(&route, JSON, body).header("Idempotency-Key", "k");
    let first = said(send("1")).await;
    let again = said(send("2")).await;
    assert_eq!((again.status, position(&again.body)), (202, (1, true)));
    assert_eq!(again.body["id"], first.body["id"]);
    // In one call, too.
    let batch = ["3", "4"].map(|body| {
        json!({"destinations": ["cdc"], "body": body, "idempotency_key": "x"}).to_string()
    });
    let twice = service.post(ITEMS, "application/x-ndjson", batch.join("\n"));
    let text = twice.send().await.unwrap().text().await.unwrap();
    let places: Vec<_> =
        text.lines().map(|line| position(&serde_json::from_str(line).unwrap())).collect();
    assert_eq!(places, [(2, false), (2, true)]);
    assert_eq!(stats(&service.pod, "cdc").await.unwrap()["last_sequence"], 2);
}

#[tokio::test]
async fn unknown_one_of_several_destinations_can_be_completed_later() {
    let service = Service::start().await;
    let item =
        json!({"destinations": ["erp", "crm"], "body": 1, "idempotency_key": "k", "id": "mine"});
    let refused = said(service.json(ITEMS, &item)).await;
    refused.is_problem(404, "unknown_destination", "crm");
    assert_eq!((refused.body["id"].as_str(), position(&refused.body)), (Some("mine"), (1, false)));
    assert_eq!(refused.body["deliveries"].as_array().unwrap().len(), 1);
    service.define("crm", json!({})).await;
    let completed = said(service.json(ITEMS, &item)).await;
    assert_eq!((completed.status, position(&completed.body)), (202, (1, true)));
    let second = &completed.body["deliveries"][1];
    assert_eq!((&second["destination"], &second["duplicate"]), (&json!("crm"), &json!(false)));
    service.inbox.journal.reaches(2).await;
    let all = service.inbox.journal.all();
    assert!(all.iter().all(|one| one.headers.as_ref().is_some_and(|said| said.id == "mine")));
}

#[tokio::test]
async fn a_full_backlog_refuses_until_there_is_room_again() {
    let service = Service::start().await;
    service.define("small", json!({"backlog_max": 3})).await;
    let gate = &service.inbox.gate;
    gate.hold(crate::support::gate::Point::Arrived);
    let path = "/v1/destinations/small/messages";
    for body in ["1", "2", "3"] {
        assert_eq!(said(service.post(path, JSON, body)).await.status, 202);
    }
    gate.holds(1).await;
    let before = service.holds().await;
    said(service.post(path, JSON, "4")).await.is_problem(429, "backlog_full", "backlog_max");
    let lines = ["4", "5"].map(|body| format!(r#"{{"destinations": ["small"], "body": {body}}}"#));
    let batch = service.post(ITEMS, "application/x-ndjson", lines.join("\n"));
    let answer = batch.send().await.unwrap();
    let is_told = answer.headers().contains_key("retry-after");
    assert_eq!((answer.status().as_u16(), is_told), (429, true), "nothing was stored");
    let text = answer.text().await.unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Messages after a refused one must not overtake it.
    assert_eq!((&told[0]["code"], &told[1]["code"]), (&json!("backlog_full"), &json!("aborted")));
    assert_eq!(service.holds().await, before);
    gate.let_go();
    eventually("there is room again", async || {
        let said = said(service.post(path, JSON, "4")).await;
        if said.status == 202 { Ok(()) } else { Err(said.body.to_string()) }
    })
    .await;
    service.inbox.journal.reaches(4).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_delayed_message_is_taken_up_by_the_pod_that_took_it_in() {
    let redis = TestRedis::start().await;
    let worker = "url = \"http://127.0.0.1:1/\"\ntransform = { kind = \"worker\" }";
    let settings = Settings::new(redis.url()).destination("erp", worker);
    let pod = Pod::start("ingest", "ingest", &settings).await;
    let post = client().post(pod.url("/v1/destinations/erp/messages")).body("x");
    assert_eq!(said(post.header("reseq-delay", "50ms")).await.status, 202);
    // There is no sender that owns the partition and would find the message within a second.
    eventually("it may be claimed", async || {
        let stats = stats(&pod, "erp").await?;
        if stats["waiting"] == 1 && stats["delayed"] == 0 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
}
