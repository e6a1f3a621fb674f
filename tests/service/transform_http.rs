//! Tests the HTTP transform with real services.

use crate::common;

use std::time::Duration;

use axum::{body::Body as AxumBody, http::StatusCode, response::IntoResponse};
use common::{Receiver, clients, closed_port, endless, message, message_with_everything, receiver};
use domain::{Attempts, Body, ErrorKind, TransformKind};
use processor::transform::{Failure, Http, Output, Transform};

const OUTPUT_BYTES_MAX: usize = 1000;

fn definition(url: &str) -> domain::Transform {
    let headers = [("authorization", "Bearer s3cret"), ("x-static", "static")];
    domain::Transform {
        kind: TransformKind::Http,
        url: Some(url.into()),
        headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
        ..Default::default()
    }
}

fn by(definition: &domain::Transform) -> Http {
    Http::new(definition, clients(), OUTPUT_BYTES_MAX)
}

fn at(receiver: &Receiver) -> Http {
    by(&definition(&receiver.url()))
}

/// The result for one message when the service answers like this.
async fn transformed<A: IntoResponse>(
    answer: impl Fn() -> A + Send + Sync + 'static,
) -> Result<Output, Failure> {
    at(&receiver(answer).await).transform(&message("in")).await
}

fn deliver(content_type: &str, body: &str) -> Result<Output, Failure> {
    let bytes = body.to_owned().into();
    Ok(Output::Deliver(Body { content_type: content_type.into(), bytes }))
}

#[tokio::test]
async fn a_request_carries_the_body_and_exactly_these_headers() {
    let mut receiver = receiver(|| "").await;
    let mut message = message_with_everything();
    message.attempts = Attempts { failed: 3, stalls: 1, ..Attempts::default() };
    at(&receiver).transform(&message).await.unwrap();
    let seen = receiver.take().remove(0);
    assert_eq!((&*seen.method, seen.uri.to_string()), ("POST", "/in?token=s3cret".into()));
    assert_eq!(seen.headers, common::headers_with_everything(&receiver.address, "5"));
    assert_eq!(seen.body, "body");
}

#[tokio::test]
async fn a_request_with_an_empty_body_has_a_content_length() {
    let mut receiver = receiver(|| "").await;
    at(&receiver).transform(&message("")).await.unwrap();
    assert_eq!(receiver.take()[0].headers["content-length"], "0");
}

#[tokio::test]
async fn the_output_is_the_answers_body_and_type() {
    let json = || (StatusCode::CREATED, [("content-type", "application/json")], "{}");
    assert_eq!(transformed(json).await, deliver("application/json", "{}"));
    let untyped = || AxumBody::from("out").into_response();
    assert_eq!(transformed(untyped).await, deliver("text/plain", "out"));
    assert_eq!(transformed(|| StatusCode::OK).await, deliver("text/plain", ""));
}

#[tokio::test]
async fn a_204_drops() {
    assert_eq!(transformed(|| StatusCode::NO_CONTENT).await, Ok(Output::Drop));
}

#[tokio::test]
async fn only_some_4xx_are_final() {
    let table = [
        (400, true),
        (404, true),
        (410, true),
        (422, true),
        (499, true),
        (408, false),
        (425, false),
        (429, false),
        (302, false),
        (500, false),
        (503, false),
    ];
    for (status, is_final) in table {
        let answer = move || (StatusCode::from_u16(status).unwrap(), [("retry-after", "3")]);
        let failure = transformed(answer).await.unwrap_err();
        assert_eq!(failure.is_final, is_final, "{status}");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
        assert!(failure.reason.starts_with(&format!("status {status}")), "{failure}");
        assert_eq!((failure.kind, failure.status), (ErrorKind::Status, Some(status)));
    }
}

#[tokio::test]
async fn what_a_refusal_says_is_told_and_no_more_than_the_start_of_it() {
    let refused = (StatusCode::UNPROCESSABLE_ENTITY, "  no such account: 7\n");
    let failure = transformed(move || refused).await.unwrap_err();
    assert_eq!(failure.reason, "status 422: no such account: 7");
    let long = transformed(|| (StatusCode::BAD_GATEWAY, "ö".repeat(100_000))).await.unwrap_err();
    assert!(long.reason.starts_with("status 502: öö"), "{long}");
    assert!((2000..2100).contains(&long.reason.len()), "{}", long.reason.len());
}

#[tokio::test]
async fn an_output_over_the_limit_fails_for_good() {
    let full = "x".repeat(OUTPUT_BYTES_MAX);
    let output = full.clone();
    let fits = transformed(move || AxumBody::from(full.clone()).into_response()).await;
    assert_eq!(fits, deliver("text/plain", &output));

    let over = || "x".repeat(OUTPUT_BYTES_MAX + 1);
    let announced = transformed(over).await.unwrap_err();
    let streamed = transformed(move || {
        let chunks = over().into_bytes().chunks(100).map(|c| Ok(c.to_vec())).collect::<Vec<_>>();
        AxumBody::from_stream(futures::stream::iter::<Vec<Result<_, std::io::Error>>>(chunks))
    });
    for failure in [announced, streamed.await.unwrap_err()] {
        assert!(failure.is_final && failure.status == Some(200));
        assert_eq!(failure.reason, "the answer is longer than 1000 bytes");
    }
}

#[tokio::test]
async fn no_whole_answer_is_tried_again_and_keeps_its_secrets() {
    let nobody = format!("http://{}/?token=s3cret", closed_port().await);
    let no_connection = by(&definition(&nobody)).transform(&message("x")).await.unwrap_err();
    assert!(no_connection.reason.starts_with("no connection: "), "{no_connection}");

    let endless = receiver(endless).await;
    let mut slow = definition(&endless.url());
    slow.timeout_ms = 50;
    let timed_out = by(&slow).transform(&message("x")).await.unwrap_err();
    assert_eq!(timed_out.reason, "timed out after 50 ms");

    let kinds = [no_connection.kind, timed_out.kind];
    assert_eq!(kinds, [ErrorKind::Connection, ErrorKind::Timeout]);
    for failure in [no_connection, timed_out] {
        assert!(!failure.is_final && failure.retry_after.is_none());
        assert!(!failure.reason.contains("s3cret"), "{failure}");
    }
}

#[tokio::test]
async fn an_output_that_may_have_lost_its_end_is_tried_again() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    for (answer, is_whole) in [
        (format!("{head}content-length: 30\r\n\r\n{{\"a\": 1}}"), false),
        (format!("{head}transfer-encoding: chunked\r\n\r\n8\r\n{{\"a\": 1}}\r\n"), false),
        // Without a length, only the end of the connection ends these.
        (format!("{head}\r\n{{\"a\": "), false),
        (format!("{head}\r\n"), false),
        (format!("{head}\r\n{{\"a\": 1}}"), true),
        // With a length, the answer is complete, although it is not JSON.
        (format!("{head}content-length: 4\r\n\r\n{{\"a\""), true),
    ] {
        let (address, _server) = common::answering(answer.clone().leak()).await;
        let output = by(&definition(&format!("http://{address}/"))).transform(&message("x")).await;
        assert_eq!(output.is_ok(), is_whole, "{answer}: {output:?}");
        if let Err(failure) = output {
            assert_eq!((failure.is_final, failure.kind), (false, ErrorKind::Connection));
        }
    }
    let packed = transformed(|| ([("content-encoding", "gzip")], "\u{1f}")).await.unwrap_err();
    assert!(!packed.is_final && packed.reason.contains("content-encoding: gzip"), "{packed}");
}
