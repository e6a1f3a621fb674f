//! Sends to a service that refuses messages.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use serde_json::{Value, json};

use super::*;
use crate::exit::Exit;

/// A service that stamps, recognises repeats by their keys, and refuses some calls.
#[derive(Default)]
struct Fake {
    seen: Vec<String>,
    calls: usize,
    /// Its second call refuses everything from this item on.
    full_from: Option<usize>,
    /// An item with this body is permanently refused.
    bad: Option<Value>,
}

async fn take(State(fake): State<Arc<Mutex<Fake>>>, body: String) -> impl IntoResponse {
    let mut fake = fake.lock().unwrap();
    fake.calls += 1;
    if fake.calls == 1 {
        let problem = json!({"code": "redis_unavailable", "detail": "gone", "status": 503});
        let headers = [("retry-after", "0"), ("content-type", "application/problem+json")];
        return (StatusCode::SERVICE_UNAVAILABLE, headers, problem.to_string());
    }
    let full_from = if fake.calls == 2 { fake.full_from } else { None };
    let (mut answer, mut accepted, mut first_refused) = (String::new(), false, None);
    for (at, line) in body.lines().enumerate() {
        let item: Value = serde_json::from_str(line).unwrap();
        let key = item["idempotency_key"].as_str().unwrap().to_owned();
        let result = if full_from.is_some_and(|from| at >= from) {
            json!({"status": 429, "code": "backlog_full", "detail": "full"})
        } else if fake.bad.as_ref() == Some(&item["body"]) {
            json!({"status": 400, "code": "invalid_field", "detail": "body: no"})
        } else {
            let at = fake.seen.iter().position(|seen| *seen == key);
            let at = at.unwrap_or_else(|| {
                fake.seen.push(key);
                fake.seen.len() - 1
            });
            accepted = true;
            json!({"deliveries": [{"destination": "erp", "sequence": at + 1, "epoch": 1}]})
        };
        first_refused = first_refused.or(result["status"].as_u64());
        answer.push_str(&format!("{result}\n"));
    }
    let refused = first_refused.filter(|_| !accepted);
    let status = StatusCode::from_u16(refused.unwrap_or(202) as u16).unwrap();
    (status, [("retry-after", "0"), ("content-type", "application/x-ndjson")], answer)
}

async fn send(fake: Fake, lines: &[String]) -> (Arc<Mutex<Fake>>, Sending, anyhow::Result<()>) {
    let fake = Arc::new(Mutex::new(fake));
    let routes = Router::new().route("/v1/messages", post(take)).with_state(fake.clone());
    let (sending, outcome) = send_to(routes, lines).await;
    (fake, sending, outcome)
}

async fn send_to(routes: Router, lines: &[String]) -> (Sending, anyhow::Result<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, routes).into_future());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let args = SendArgs {
        client: ClientArgs {
            url: Some(url),
            context: None,
            headers: Vec::new(),
            token_file: None,
            ca_file: None,
            certificate_file: None,
            key_file: None,
            output: Output::Table,
        },
        destination: Some("erp".into()),
        topic: None,
        key: None,
        delay: None,
        due_at: None,
        priority: None,
        content_type: None,
        idempotency_key: None,
        ndjson: true,
        file: Some(file.path().into()),
        retry: Duration::from_secs(10),
        messages: Vec::new(),
    };
    let mut source = Source::open(&args).await.unwrap();
    let mut sending = Sending {
        service: args.client.service().unwrap(),
        retry_max: args.retry,
        meter: Meter::new(source.bytes_total()),
        tallies: BTreeMap::new(),
    };
    let outcome = sending.send_all(&mut source).await;
    (sending, outcome)
}

fn lines(count: usize) -> Vec<String> {
    let line = |n| json!({"body": n, "idempotency_key": format!("k{n}")}).to_string();
    (1..=count).map(line).collect()
}

#[tokio::test]
async fn send_resumes_in_order_at_first_temporarily_refused_line() {
    let fake = Fake { full_from: Some(1), ..Fake::default() };
    let (fake, sending, outcome) = send(fake, &lines(1000)).await;
    outcome.unwrap();
    let expected: Vec<String> = (1..=1000).map(|n| format!("k{n}")).collect();
    assert_eq!(fake.lock().unwrap().seen, expected);
    let tally = &sending.tallies["erp"];
    assert_eq!((tally.count, tally.first, tally.last), (1000, 1, 1000));
}

#[tokio::test]
async fn a_message_that_is_bad_for_good_stops_with_its_line() {
    let fake = Fake { bad: Some(json!(3)), ..Fake::default() };
    let (_, sending, outcome) = send(fake, &lines(3)).await;
    let error = outcome.unwrap_err();
    assert_eq!(format!("{error:#}"), "line 3: body: no (invalid_field, status 400)");
    assert_eq!(Exit::of(&error), Exit::Refused);
    assert_eq!(sending.tallies["erp"].count, 2);
    assert_eq!(sending.summary(Output::Table).unwrap(), "sent 2 messages to erp: sequences 1 to 2");
    let summary: Value = serde_json::from_str(&sending.summary(Output::Json).unwrap()).unwrap();
    let erp = json!({"destination": "erp", "messages": 2, "first_sequence": 1, "last_sequence": 2});
    assert_eq!(summary, json!({"items": [erp]}));
}

#[tokio::test]
async fn a_pod_that_has_no_ingest_is_named_with_what_it_lacks() {
    let detail = "there is nothing at this path";
    let problem = json!({"status": 404, "code": "not_found", "detail": detail}).to_string();
    let elsewhere = Router::new().fallback(async move || (StatusCode::NOT_FOUND, problem));
    let (sending, outcome) = send_to(elsewhere, &lines(1)).await;
    let error = outcome.unwrap_err();
    let shown = format!("{error:#}");
    assert!(shown.contains("the pod has no role ingest") && shown.contains("--url"), "{shown}");
    assert_eq!((Exit::of(&error), sending.tallies.len()), (Exit::Refused, 0));
}

#[tokio::test]
async fn a_batch_of_which_nothing_is_accepted_names_its_first_line() {
    let fake = Fake { bad: Some(json!(1)), ..Fake::default() };
    let (_, sending, outcome) = send(fake, &lines(1)).await;
    let problem = format!("{:#}", outcome.unwrap_err());
    assert_eq!(problem, "line 1: body: no (invalid_field, status 400)");
    assert_eq!(sending.summary(Output::Table).unwrap(), "sent 0 messages");
    // The second call, too, refuses everything, but only for the time being.
    let fake = Fake { full_from: Some(0), ..Fake::default() };
    let (fake, _, outcome) = send(fake, &lines(2)).await;
    outcome.unwrap();
    assert_eq!(fake.lock().unwrap().seen, ["k1", "k2"]);
}
