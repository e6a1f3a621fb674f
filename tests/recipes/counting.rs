//! Recipes 12 and 13: hits counted in batches, and a booking that reaches four services.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[tokio::test]
async fn hits_are_counted_exactly_in_few_requests_with_one_mail() {
    let sandbox = Sandbox::open(1).await;
    let found = sandbox.run("12-hit-counters.mjs", &[]).await;
    assert_eq!(found["hits"], 20_000, "{found}");
    assert_eq!(found["counters"], found["expected"], "{found}");
    let number = |field: &str| found[field].as_u64().unwrap();
    assert!(number("requests") < 20_000 / 50, "{found}");
    assert!(number("lostAnswers") > 0 && number("repeatsSeen") > 0, "{found}");
    // The mail was requested more than once, and sent once.
    assert!(number("askedForMail") > 1, "{found}");
    let mails = found["mails"].as_array().unwrap();
    assert_eq!(mails.len(), 1, "{found}");
    assert_eq!((&mails[0]["page"], &mails[0]["threshold"]), (&json!("home"), &json!(5000)));
    assert_eq!(sandbox.balanced("hits").await["delivered_total"], 20_000);
    assert_eq!(sandbox.balanced("mail").await["last_sequence"], 1);
    sandbox.forgotten().await;
}

#[tokio::test]
async fn a_booking_reaches_four_services_once_though_a_pod_is_killed() {
    let mut sandbox = Sandbox::open(2).await;
    let mut booking = sandbox.start("13-booking.mjs", &[], &[]);
    booking.says("50 are published", |line| line["published"].as_u64() >= Some(50)).await;
    sandbox.pods[0].kill();
    let found = booking.finish().await;
    // The remaining pod continues.
    sandbox.pods.remove(0);
    assert_eq!(found["bookings"], 200, "{found}");
    for wrong in ["doubled", "toldOtherwise", "twice"] {
        assert_eq!(found[wrong], 0, "{wrong}: {found}");
    }
    let during = &found["during"];
    assert_eq!(during["payment"]["state"], "delivered", "{found}");
    assert_ne!(during["invoice"]["state"], "delivered", "{found}");
    let error = during["invoice"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("503"), "{found}");
    for service in ["payment", "seat", "mail", "invoice"] {
        assert_eq!(found["did"][service], 200, "{service}: {found}");
        let numbers = sandbox.balanced(service).await;
        let (stamped, delivered) = (&numbers["last_sequence"], &numbers["delivered_total"]);
        assert_eq!((stamped, delivered), (&json!(200), &json!(200)), "{service}: {numbers}");
        assert_eq!(numbers["head"], Value::Null);
    }
}
