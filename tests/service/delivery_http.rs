//! Delivery over HTTP to real receivers.

use crate::common;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::http::StatusCode;
use base64::{Engine, prelude::BASE64_STANDARD};
use common::{Receiver, clients, closed_port, endless, message, message_with_everything, receiver};
use domain::{
    AttemptError, BatchFormat, Destination, ErrorKind, Ordering, Origin, Position, Stage, Stamped,
    destination::{Secrets, Sign},
};
use outbound::{
    http_client::{Clients, Limits},
    outgoing::Outgoing,
};
use ring::hmac;
use sender::deliver::{Deliver, Finality, Verdict, connect};
use serde_json::{Value, json};
use tls::Connector;
use tokio::net::TcpListener;

const JSON_DEPTH_MAX: usize = 128;

fn destination(url: &str) -> Destination {
    let mut destination = Destination::new("erp".parse().unwrap(), url);
    for (name, value) in [("Authorization", "Bearer s3cret"), ("x-static", "static")] {
        destination.headers.insert(name.into(), value.into());
    }
    destination.validate().unwrap();
    destination
}

fn to(receiver: &Receiver) -> Arc<dyn Deliver> {
    connect(&destination(&receiver.url()), &clients(), JSON_DEPTH_MAX)
}

/// One attempt at one message.
async fn deliver(to: &dyn Deliver, message: Stamped, attempt: u32) -> Verdict {
    to.deliver(&[Arc::new(message)], attempt).await
}

fn parts(verdict: Verdict) -> (AttemptError, Option<Duration>, Finality) {
    match verdict {
        Verdict::Accepted(count) => panic!("{count} accepted"),
        Verdict::Refused { error, retry_after, finality, .. } => {
            let reason = &error.detail;
            assert!(!reason.contains("s3cret") && !reason.contains("token"), "{reason}");
            assert_eq!(error.stage, Stage::Delivery);
            (error, retry_after, finality)
        }
    }
}

fn refused(verdict: Verdict) -> (String, Option<Duration>) {
    let (error, retry_after, _) = parts(verdict);
    (error.detail, retry_after)
}

fn kind(verdict: Verdict) -> (ErrorKind, Finality) {
    let (error, _, finality) = parts(verdict);
    (error.kind, finality)
}

/// The text that `reseq-signature` signs, from the request that the receiver got.
fn covered(seen: &common::Seen) -> Vec<u8> {
    let names = [
        "webhook-id",
        "webhook-timestamp",
        "reseq-attempt",
        "reseq-batch",
        "reseq-destination",
        "reseq-epoch",
        "reseq-id",
        "reseq-key",
        "reseq-last-sequence",
        "reseq-origin",
        "reseq-previous",
        "reseq-sequence",
    ];
    let line = |name: &&str| seen.headers.get(*name).map(|value| format!("{name}:{value}\n"));
    let lines: String = names.iter().filter_map(line).collect();
    [b"reseq-signature\n", lines.as_bytes(), b"\n", &seen.body].concat()
}

#[tokio::test]
async fn signed_delivery_signs_its_body_and_the_headers_of_reseq() {
    let mut receiver = receiver(|| StatusCode::ACCEPTED).await;
    let secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &format!("whsec_{}", "B".repeat(32))];
    let mut destination = destination(&receiver.url());
    destination.sign = Some(Sign { secrets: Secrets::new(secrets) });
    destination.validate().unwrap();
    let to = connect(&destination, &clients(), JSON_DEPTH_MAX);
    let mut message = message_with_everything();
    message.message.id = "order.7".into();
    message.message.headers.push(("webhook-signature".into(), "v1,forged".into()));
    assert_eq!(deliver(&*to, message, 5).await, Verdict::Accepted(1));
    let (one, two) = (Arc::new(common::message("1")), Arc::new(common::message("2")));
    destination.delivery.batch_max = 2;
    let to = connect(&destination, &clients(), JSON_DEPTH_MAX);
    assert!(matches!(to.deliver(&[one, two], 1).await, Verdict::Accepted(2)));
    let seen = receiver.take();
    let ids: Vec<&str> = seen.iter().map(|seen| &*seen.headers["webhook-id"]).collect();
    assert_eq!(ids, ["order%2E7", "erp/3/42-42"]);
    for seen in &seen {
        let text = |name: &str| seen.headers[name].clone();
        let content = [
            format!("{}.{}.", text("webhook-id"), text("webhook-timestamp")).as_bytes(),
            &seen.body,
        ]
        .concat();
        for (name, content) in [("webhook-signature", content), ("reseq-signature", covered(seen))]
        {
            let expected = secrets.map(|secret| {
                let secret = BASE64_STANDARD.decode(&secret["whsec_".len()..]).unwrap();
                let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
                format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(&key, &content)))
            });
            assert_eq!(text(name), expected.join(" "), "{name}");
        }
    }
}

#[tokio::test]
async fn a_delivery_carries_the_body_and_exactly_these_headers() {
    let mut receiver = receiver(|| StatusCode::ACCEPTED).await;
    let verdict = deliver(&*to(&receiver), message_with_everything(), 5).await;
    assert_eq!(verdict, Verdict::Accepted(1));
    let seen = receiver.take().remove(0);
    assert_eq!((&*seen.method, seen.uri.to_string()), ("POST", "/in?token=s3cret".into()));
    assert_eq!(seen.headers, common::headers_with_everything(&receiver.address, "5"));
    assert_eq!(seen.body, "body");
}

#[tokio::test]
async fn an_empty_body_has_a_content_length() {
    let mut receiver = receiver(|| StatusCode::ACCEPTED).await;
    deliver(&*to(&receiver), message(""), 1).await;
    assert_eq!(receiver.take()[0].headers["content-length"], "0");
}

#[tokio::test]
async fn every_2xx_accepts_and_everything_else_refuses() {
    for status in [200, 201, 202, 204, 299] {
        let receiver = receiver(move || StatusCode::from_u16(status).unwrap()).await;
        assert_eq!(
            deliver(&*to(&receiver), message("x"), 1).await,
            Verdict::Accepted(1),
            "{status}"
        );
    }
    for status in [400, 401, 404, 408, 409, 410, 413, 415, 422, 425, 429, 500, 503] {
        let receiver = receiver(move || StatusCode::from_u16(status).unwrap()).await;
        let verdict = deliver(&*to(&receiver), message("x"), 1).await;
        let (error, retry_after, finality) = parts(verdict);
        let expected =
            AttemptError::new(Stage::Delivery, ErrorKind::Status, format!("status {status}"));
        assert_eq!((error, retry_after), (expected.with_status(status), None));
        let expected = match status {
            400 | 413 | 415 | 422 => Finality::Permanent,
            410 => Finality::Halts,
            _ => Finality::Retryable,
        };
        assert_eq!(finality, expected, "{status}");
    }
}

#[tokio::test]
async fn a_refusal_keeps_the_beginning_of_what_the_receiver_said() {
    let said = receiver(|| (StatusCode::UNPROCESSABLE_ENTITY, " no account\n7 ")).await;
    let (reason, _) = refused(deliver(&*to(&said), message("x"), 1).await);
    assert_eq!(reason, "status 422: no account\n7");

    let said = receiver(|| (StatusCode::BAD_REQUEST, "ö".repeat(100_000))).await;
    let (reason, _) = refused(deliver(&*to(&said), message("x"), 1).await);
    assert!(reason.starts_with("status 400: öö") && reason.len() <= 2048, "{reason}");
}

#[tokio::test]
async fn a_message_that_was_redriven_names_its_origin() {
    let mut receiver = receiver(|| "").await;
    let mut message = message("x");
    let position = Position { epoch: 2, sequence: 9 };
    message.origin = Some(Origin { destination: "crm".parse().unwrap(), position });
    deliver(&*to(&receiver), message, 1).await;
    assert_eq!(receiver.take()[0].headers["reseq-origin"], "crm/2/9");
}

#[tokio::test]
async fn retry_after_is_honoured_in_both_forms() {
    let busy = |text: String| {
        receiver(move || (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", text.clone())]))
    };
    let seconds = busy("7".into()).await;
    let (_, wait) = refused(deliver(&*to(&seconds), message("x"), 1).await);
    assert_eq!(wait, Some(Duration::from_secs(7)));

    let hour = Duration::from_secs(3600);
    // Other tests of this process may have moved the clock of their Redis, which this process takes over.
    let date = busy(httpdate::fmt_http_date(store::server_clock() + hour)).await;
    let (_, wait) = refused(deliver(&*to(&date), message("x"), 1).await);
    assert!((hour / 2..=hour).contains(&wait.unwrap()), "{wait:?}");

    let endless = busy("9".repeat(40)).await;
    let (_, wait) = refused(deliver(&*to(&endless), message("x"), 1).await);
    assert_eq!(wait, Some(Duration::MAX), "the setting limits it");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut elsewhere = receiver(|| "").await;
    let location = elsewhere.url();
    let receiver =
        receiver(move || (StatusCode::PERMANENT_REDIRECT, [("location", location.clone())])).await;
    let (reason, _) = refused(deliver(&*to(&receiver), message("x"), 1).await);
    assert_eq!(reason, "status 308 (redirects are not followed)");
    assert!(elsewhere.take().is_empty());
}

#[tokio::test]
async fn no_connection_and_a_broken_one_are_refusals_without_secrets() {
    let clients = clients();
    let nobody = format!("http://{}/in?token=s3cret", closed_port().await);
    let verdict =
        deliver(&*connect(&destination(&nobody), &clients, JSON_DEPTH_MAX), message("x"), 1).await;
    let (reason, _) = refused(verdict);
    assert!(reason.starts_with("no connection: "), "{reason}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rude = format!("http://{}/?token=s3cret", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let verdict =
        deliver(&*connect(&destination(&rude), &clients, JSON_DEPTH_MAX), message("x"), 1).await;
    let (reason, _) = refused(verdict.clone());
    assert!(reason.starts_with("no whole answer: "), "{reason}");
    assert_eq!(kind(verdict), (ErrorKind::Connection, Finality::Retryable));

    let mut broken = destination(&nobody);
    broken.url = Some("http://[s3cret".into());
    refused(deliver(&*connect(&broken, &clients, JSON_DEPTH_MAX), message("x"), 1).await);
}

#[tokio::test]
async fn a_slow_receiver_is_a_time_out_unless_it_has_said_2xx() {
    // The receiver accepts connections but never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut silent = destination(&format!("http://{}/", listener.local_addr().unwrap()));
    silent.delivery.timeout_ms = 50;
    let clients = clients();
    let verdict = deliver(&*connect(&silent, &clients, JSON_DEPTH_MAX), message("x"), 1).await;
    let (error, _, finality) = parts(verdict);
    assert_eq!((&*error.detail, error.kind), ("timed out after 50 ms", ErrorKind::Timeout));
    assert_eq!(finality, Finality::Retryable);

    let dribbling = receiver(endless).await;
    let mut destination = destination(&dribbling.url());
    destination.delivery.timeout_ms = 500;
    let verdict = deliver(&*connect(&destination, &clients, JSON_DEPTH_MAX), message("x"), 1).await;
    assert_eq!(verdict, Verdict::Accepted(1));
}

#[tokio::test]
async fn deliveries_one_after_the_other_share_a_connection() {
    let mut receiver = receiver(|| (StatusCode::BAD_GATEWAY, "x".repeat(10_000))).await;
    let delivery = to(&receiver);
    for attempt in 1..=5 {
        refused(deliver(&*delivery, message("x"), attempt).await);
    }
    let seen = receiver.take();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|request| request.port == seen[0].port));
}

#[tokio::test]
async fn connection_that_is_too_old_is_not_used_again() {
    let mut receiver = receiver(|| StatusCode::OK).await;
    for (age_max, connections) in [(Duration::from_secs(300), 1), (Duration::ZERO, 3)] {
        let allow = vec!["127.0.0.0/8".parse().unwrap()];
        let limits = Limits { age_max, ..Limits::default() };
        let connector = Connector::of_system().unwrap();
        let clients = Clients::limited(Outgoing::new(allow), connector, limits).unwrap();
        let delivery = connect(&destination(&receiver.url()), &clients, JSON_DEPTH_MAX);
        for _ in 0..3 {
            assert_eq!(deliver(&*delivery, message("x"), 1).await, Verdict::Accepted(1));
        }
        let ports: BTreeSet<u16> = receiver.take().iter().map(|request| request.port).collect();
        assert_eq!(ports.len(), connections, "{age_max:?}");
    }
}

#[tokio::test]
async fn answer_with_too_many_headers_names_the_limit() {
    for (count, is_read) in [(98, true), (101, false)] {
        let headers: String = (0..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n");
        let (address, _server) = common::answering(answer.leak()).await;
        let url = format!("http://{address}/in?token=s3cret");
        let delivery = connect(&destination(&url), &clients(), JSON_DEPTH_MAX);
        let verdict = deliver(&*delivery, message("x"), 1).await;
        match is_read {
            true => assert_eq!(verdict, Verdict::Accepted(1)),
            false => {
                let (reason, _) = refused(verdict);
                assert!(reason.contains("more headers than Reseq reads: at most 100"), "{reason}");
            }
        }
    }
}

/// A transport to a receiver that takes batches of up to three.
fn batches_to(receiver: &Receiver, change: impl FnOnce(&mut Destination)) -> Arc<dyn Deliver> {
    let mut destination = destination(&receiver.url());
    destination.delivery.batch_max = 3;
    change(&mut destination);
    destination.validate().unwrap();
    connect(&destination, &clients(), JSON_DEPTH_MAX)
}

/// Three messages of one lane, with a tombstone between the second and the third.
fn three() -> Vec<Arc<Stamped>> {
    let bodies = [("application/json", "{\"a\": 1}"), ("text/plain", "two"), ("text/plain", "3")];
    let make = |((content_type, body), sequence): ((&str, &str), u64)| {
        let mut stamped = message_with_everything();
        stamped.message.body.content_type = content_type.into();
        stamped.message.body.bytes = body.to_owned().into();
        stamped.position.sequence = sequence;
        stamped.previous = Some(sequence - 1);
        Arc::new(stamped)
    };
    bodies.into_iter().zip([42, 43, 45]).map(make).collect()
}

#[tokio::test]
async fn a_batch_is_one_request_of_envelopes() {
    let mut receiver = receiver(|| "thanks").await;
    let verdict = batches_to(&receiver, |_| {}).deliver(&three(), 5).await;
    assert_eq!(verdict, Verdict::Accepted(3));
    let seen = receiver.take().remove(0);
    let mut expected = common::headers_with_everything(&receiver.address, "5");
    for gone in ["reseq-id", "reseq-previous", "reseq-key", "x-tenant", "x-reseq-key"] {
        expected.remove(gone);
    }
    let changed = [
        ("content-type", "application/json"),
        ("content-length", &seen.headers["content-length"]),
        ("reseq-batch", "3"),
        ("reseq-last-sequence", "45"),
    ];
    expected.extend(changed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(seen.headers, expected);
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let envelope = json!({
        "id": "order-7", "sequence": 42, "previous": 41, "epoch": 3, "key": " kontō 7%",
        "attempt": 1, "content_type": "application/json", "body": {"a": 1},
        "headers": {"x-tenant": "7, 8", "x-static": "travelling", "x-reseq-key": "no"},
    });
    assert_eq!((&body[0], body.as_array().unwrap().len()), (&envelope, 3));
    assert_eq!((&body[1]["body_base64"], &body[2]["sequence"]), (&json!("dHdv"), &json!(45)));
}

#[tokio::test]
async fn a_batch_of_a_key_as_lines_names_the_key() {
    let mut receiver = receiver(|| "").await;
    let lines = batches_to(&receiver, |destination| {
        destination.ordering = Ordering::Key;
        destination.delivery.batch_format = BatchFormat::Ndjson;
    });
    assert_eq!(lines.deliver(&three()[..1], 1).await, Verdict::Accepted(1));
    let seen = receiver.take().remove(0);
    assert_eq!(seen.headers["content-type"], "application/x-ndjson");
    assert_eq!(seen.headers["reseq-key"], "%20kont%C5%8D%207%25");
    assert_eq!((&*seen.headers["reseq-batch"], &*seen.headers["reseq-last-sequence"]), ("1", "42"));
    assert_eq!(seen.body.iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[tokio::test]
async fn a_2xx_may_accept_the_beginning_of_a_batch() {
    for (answer, accepted) in [
        (r#"{"accepted": 2}"#, 2),
        (r#"{"accepted": 1, "error": "full"}"#, 1),
        (r#"{"accepted": 3, "items": [{"accepted": true}]}"#, 3),
        ("\u{feff}{\"accepted\": 2}", 2),
        // None of these answers has a count, so they accept the whole batch.
        (r#"[1]"#, 3),
        (r#"{"status": "accepted", "total": 2}"#, 3),
        (r#""Accepted""#, 3),
        ("null", 3),
        ("Accepted", 3),
        ("202 Accepted\n", 3),
        ("<h1>Accepted</h1>", 3),
        (" \n", 3),
        ("", 3),
    ] {
        let receiver = receiver(move || answer).await;
        let verdict = batches_to(&receiver, |_| {}).deliver(&three(), 1).await;
        assert_eq!(verdict, Verdict::Accepted(accepted), "{answer}");
    }
    let nothing = receiver(|| ([("retry-after", "7")], r#"{"accepted": 0}"#)).await;
    let verdict = batches_to(&nothing, |_| {}).deliver(&three(), 1).await;
    let (error, wait, finality) = parts(verdict);
    assert_eq!((error.status, finality), (Some(200), Finality::Retryable));
    assert_eq!(error.detail, "status 200: none of 3 was accepted");
    assert_eq!(wait, Some(Duration::from_secs(7)));

    let dribbling = receiver(endless).await;
    let batches = batches_to(&dribbling, |destination| destination.delivery.timeout_ms = 300);
    let again = (ErrorKind::Timeout, Finality::Retryable);
    assert_eq!(kind(batches.deliver(&three(), 1).await), again);
}

#[tokio::test]
async fn a_2xx_that_cannot_be_understood_accepts_nothing_of_a_batch() {
    let not_a_count = "not as a whole number from 0 to 3";
    let unreadable = "cannot be read as JSON";
    let long = format!(r#"{{"accepted": 2, "more": "{}"}}"#, "x".repeat(70_000));
    let deep = format!(r#"{{"accepted": 2, "more": {}1{}}}"#, "[".repeat(500), "]".repeat(500));
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (long.into(), "longer than 65536 bytes"),
        (deep.into(), unreadable),
        (r#"{"accepted": 7}"#.into(), not_a_count),
        (r#"{"accepted": -1}"#.into(), not_a_count),
        (r#"{"accepted": 2.0}"#.into(), not_a_count),
        (r#"{"accepted": 2e0}"#.into(), not_a_count),
        (r#"{"accepted": "2"}"#.into(), not_a_count),
        (r#"{"accepted": null}"#.into(), not_a_count),
        (r#"{"accepted": true}"#.into(), not_a_count),
        (r#"{"accepted": [1, 2]}"#.into(), not_a_count),
        (r#"{"accepted": 2, "accepted": 3}"#.into(), not_a_count),
        (r#"{"Accepted": 2}"#.into(), not_a_count),
        (r#"{"result": {"accepted": 2}}"#.into(), not_a_count),
        (r#"[{"accepted": true}, {"accepted": false}]"#.into(), not_a_count),
        (r#""{\"accepted\": 2}""#.into(), not_a_count),
        (r#"{"accepted": 2"#.into(), unreadable),
        (r#"{"acc"#.into(), unreadable),
        (r#"{"accepted": 2} and more"#.into(), unreadable),
        (r#"{'accepted': 2}"#.into(), unreadable),
        (r#")]}', {"accepted": 2}"#.into(), unreadable),
        (b"{\"accepted\": 2, \"more\": \"\xff\"}".into(), unreadable),
        ("accepted: 2".into(), unreadable),
        ("<accepted>2</accepted>".into(), unreadable),
        (utf_16("\u{feff}{\"accepted\": 2}"), unreadable),
        (utf_16("{\"accepted\": 2}"), unreadable),
    ];
    for (answer, named) in cases {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
        let receiver = receiver(move || answer.clone()).await;
        let verdict = batches_to(&receiver, |_| {}).deliver(&three(), 1).await;
        assert!(matches!(verdict, Verdict::Refused { accepted: 0, .. }), "{shown}: {verdict:?}");
        let (error, _, finality) = parts(verdict);
        assert_eq!((error.status, finality), (Some(200), Finality::Retryable), "{shown}");
        assert!(error.detail.starts_with("status 200: none of 3 was accepted: "), "{shown}");
        assert!(error.detail.contains(named), "{shown}: {}", error.detail);
    }
    let packed = receiver(|| ([("content-encoding", "gzip")], "\u{1f}")).await;
    let (reason, _) = refused(batches_to(&packed, |_| {}).deliver(&three(), 1).await);
    assert!(reason.contains("content-encoding: gzip"), "{reason}");
}

#[tokio::test]
async fn an_answer_to_a_batch_that_breaks_off_accepts_nothing() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n{\"accepted\": 2}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nf\r\n{\"accepted\": 2}\r\n",
        // The end of the connection ends the answer, so its JSON must be complete.
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"accepted\": 2",
    ] {
        let (address, _server) = common::answering(answer).await;
        let mut destination = destination(&format!("http://{address}/"));
        destination.delivery.batch_max = 3;
        let verdict = connect(&destination, &clients(), JSON_DEPTH_MAX).deliver(&three(), 1).await;
        assert_eq!(parts(verdict).2, Finality::Retryable, "{answer}");
    }
}
