//! Recipes 2 and 7: a lane for each key.

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use crate::{
    sandbox::Sandbox,
    support::{
        checker::{forgotten, keys},
        wait::LOOK_EVERY,
    },
};

/// Polls Redis while `work` runs. Returns the most lanes that existed at once.
async fn most_lanes<T>(
    mut redis: MultiplexedConnection,
    work: impl Future<Output = T>,
) -> (T, usize) {
    let mut most = 0;
    let mut work = std::pin::pin!(work);
    loop {
        let there = keys(&mut redis).await;
        let lanes = there.iter().filter(|key| key.contains(":in-progress:")).count();
        most = most.max(lanes);
        if let Ok(done) = tokio::time::timeout(LOOK_EVERY * 20, &mut work).await {
            return (done, most);
        }
    }
}

/// Checks that all counters of pending messages are 0.
fn nothing_is_left(stats: &Value) {
    for field in [
        "pending",
        "waiting",
        "processing",
        "ready",
        "delivering",
        "delayed",
        "halted",
        "dead_letters",
        "pending_bytes",
    ] {
        assert_eq!(stats[field], 0, "{field}: {stats}");
    }
    assert!(stats["head"].is_null(), "{stats}");
}

#[tokio::test]
async fn each_of_many_records_has_a_queue_while_it_needs_one() {
    let sandbox = Sandbox::open(1).await;
    let mut redis = sandbox.redis.connection().await;
    let running = sandbox.run("02-queue-per-record.mjs", &[]);
    let (found, most) = most_lanes(redis.clone(), running).await;
    let sent = 199_999; // a third of the records each has one, two and three updates
    assert_eq!(
        (&found["records"], &found["complete"]),
        (&json!(100_000), &json!(100_000)),
        "{found}"
    );
    assert_eq!((&found["sent"], &found["taken"]), (&json!(sent), &json!(sent)), "{found}");
    assert_eq!(found["outOfOrder"], 0, "{found}");
    // A lane exists only while it has pending messages, so no lane is left.
    assert!(found["lanesMax"].as_u64() > Some(0) && most > 0, "{most} at most; {found}");
    assert_eq!(found["lanesLeft"], 0, "{found}");
    nothing_is_left(&found["left"]);
    let numbers = sandbox.balanced("records").await;
    assert_eq!(numbers["delivered_total"], sent, "{numbers}");
    nothing_is_left(&numbers);
    forgotten(&mut redis).await;
}

#[tokio::test]
async fn account_withdrawals_run_in_order_and_never_two_at_once() {
    let sandbox = Sandbox::open(2).await;
    let mut redis = sandbox.redis.connection().await;
    let running = sandbox.run("07-bank-accounts.mjs", &[]);
    let (found, most) = most_lanes(redis.clone(), running).await;
    assert_eq!(found["withdrawals"], 3000, "{found}");
    assert_eq!((&found["overlaps"], &found["negative"]), (&json!(0), &json!(0)), "{found}");
    // The decisions equal those of a single teller, and some withdrawals were refused.
    assert_eq!(found["wrong"], 0, "{found}");
    assert!(found["refused"].as_u64() > Some(0), "{found}");
    // The pool processed several accounts at once; no account was left open.
    let at_once = found["atOnce"].as_u64().unwrap();
    assert!((5..=8).contains(&at_once), "{found}");
    assert_eq!(found["open"], 0, "{found}");
    assert!((1..=200).contains(&most), "{most} lanes at most");
    // The total includes opening and closing each account.
    assert_eq!(sandbox.balanced("accounts").await["delivered_total"], 3000 + 2 * 200);
    forgotten(&mut redis).await;
}
