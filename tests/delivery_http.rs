//! Delivery over HTTP against real receivers.

mod common;

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use common::{Receiver, closed_port, endless, message, message_with_everything, receiver};
use reseq::{
    domain::Destination,
    sender::deliver::{Deliver, Verdict, client, connect},
};
use tokio::net::TcpListener;

fn destination(url: &str) -> Destination {
    let mut destination = Destination::new("erp".parse().unwrap(), url);
    for (name, value) in [("Authorization", "Bearer s3cret"), ("x-static", "static")] {
        destination.headers.insert(name.into(), value.into());
    }
    destination.validate().unwrap();
    destination
}

fn to(receiver: &Receiver) -> std::sync::Arc<dyn Deliver> {
    connect(&destination(&receiver.url()), &client().unwrap())
}

fn refused(verdict: Verdict) -> (String, Option<Duration>) {
    match verdict {
        Verdict::Accepted => panic!("accepted"),
        Verdict::Refused { reason, retry_after } => {
            assert!(!reason.contains("s3cret") && !reason.contains("token"), "{reason}");
            (reason, retry_after)
        }
    }
}

#[tokio::test]
async fn a_delivery_carries_the_body_and_exactly_these_headers() {
    let mut receiver = receiver(|| StatusCode::ACCEPTED).await;
    let verdict = to(&receiver).deliver(&message_with_everything(), 5).await;
    assert_eq!(verdict, Verdict::Accepted);
    let seen = receiver.take().remove(0);
    assert_eq!((&*seen.method, seen.uri.to_string()), ("POST", "/in?token=s3cret".into()));
    assert_eq!(seen.headers, common::headers_with_everything(&receiver.address, "5"));
    assert_eq!(seen.body, "body");
}

#[tokio::test]
async fn every_2xx_accepts_and_everything_else_refuses() {
    for status in [200, 201, 202, 204, 299] {
        let receiver = receiver(move || StatusCode::from_u16(status).unwrap()).await;
        assert_eq!(to(&receiver).deliver(&message("x"), 1).await, Verdict::Accepted, "{status}");
    }
    for status in [400, 404, 410, 422, 429, 500, 503] {
        let receiver = receiver(move || StatusCode::from_u16(status).unwrap()).await;
        let verdict = to(&receiver).deliver(&message("x"), 1).await;
        assert_eq!(refused(verdict), (format!("status {status}"), None));
    }
}

#[tokio::test]
async fn retry_after_is_honoured_in_both_forms() {
    let busy = |text: String| {
        receiver(move || (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", text.clone())]))
    };
    let seconds = busy("7".into()).await;
    let (_, wait) = refused(to(&seconds).deliver(&message("x"), 1).await);
    assert_eq!(wait, Some(Duration::from_secs(7)));

    let hour = Duration::from_secs(3600);
    let date = busy(httpdate::fmt_http_date(SystemTime::now() + hour)).await;
    let (_, wait) = refused(to(&date).deliver(&message("x"), 1).await);
    assert!((hour / 2..=hour).contains(&wait.unwrap()), "{wait:?}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut elsewhere = receiver(|| "").await;
    let location = elsewhere.url();
    let receiver =
        receiver(move || (StatusCode::PERMANENT_REDIRECT, [("location", location.clone())])).await;
    let (reason, _) = refused(to(&receiver).deliver(&message("x"), 1).await);
    assert_eq!(reason, "status 308 (redirects are not followed)");
    assert!(elsewhere.take().is_empty());
}

#[tokio::test]
async fn no_connection_and_a_broken_one_are_refusals_without_secrets() {
    let client = client().unwrap();
    let nobody = format!("http://{}/in?token=s3cret", closed_port().await);
    let verdict = connect(&destination(&nobody), &client).deliver(&message("x"), 1).await;
    let (reason, _) = refused(verdict);
    assert!(reason.starts_with("no connection: "), "{reason}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rude = format!("http://{}/?token=s3cret", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let verdict = connect(&destination(&rude), &client).deliver(&message("x"), 1).await;
    let (reason, _) = refused(verdict);
    assert!(reason.starts_with("no whole answer: "), "{reason}");

    let mut broken = destination(&nobody);
    broken.url = "http://[s3cret".into();
    refused(connect(&broken, &client).deliver(&message("x"), 1).await);
}

#[tokio::test]
async fn a_slow_receiver_is_a_time_out_unless_it_has_said_2xx() {
    // Connections are made, but nobody ever answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut silent = destination(&format!("http://{}/", listener.local_addr().unwrap()));
    silent.delivery.timeout_ms = 50;
    let client = client().unwrap();
    let verdict = connect(&silent, &client).deliver(&message("x"), 1).await;
    assert_eq!(refused(verdict).0, "timed out after 50 ms");

    let dribbling = receiver(endless).await;
    let mut destination = destination(&dribbling.url());
    destination.delivery.timeout_ms = 500;
    let verdict = connect(&destination, &client).deliver(&message("x"), 1).await;
    assert_eq!(verdict, Verdict::Accepted);
}

#[tokio::test]
async fn deliveries_one_after_the_other_share_a_connection() {
    let mut receiver = receiver(|| (StatusCode::BAD_GATEWAY, "x".repeat(10_000))).await;
    let delivery = to(&receiver);
    for attempt in 1..=5 {
        refused(delivery.deliver(&message("x"), attempt).await);
    }
    let seen = receiver.take();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|request| request.port == seen[0].port));
}
