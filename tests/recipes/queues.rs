//! Recipes 4, 5 and 6: queues whose work is shared.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

#[tokio::test]
async fn urgent_mails_go_first_and_big_ones_hold_up_nobody() {
    let sandbox = Sandbox::open(1).await;
    let found = sandbox.run("04-mail-by-size-and-priority.mjs", &[]).await;
    // All 100 jobs waited when the first worker started. It took the highest priority first, down to the lowest.
    assert_eq!((&found["waited"], &found["inOrder"]), (&json!(100), &json!(true)), "{found}");
    assert_eq!(found["priorities"], json!([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), "{found}");
    // All 40 small mails that were sent after the five big ones arrived before the first big one.
    assert_eq!((&found["smallBeforeFirstBig"], &found["big"]), (&json!(40), &json!(5)), "{found}");
    assert_eq!((&found["posted"], &found["different"]), (&json!(145), &json!(145)), "{found}");
    assert_eq!(sandbox.balanced("mail").await["delivered_total"], 140);
    assert_eq!(sandbox.balanced("mail-big").await["delivered_total"], 5);
}

#[tokio::test]
async fn two_consumers_share_slow_and_fast_traffic() {
    let sandbox = Sandbox::open(1).await;
    let found = sandbox.run("05-two-consumers.mjs", &[]).await;
    fairly_shared(&found["slow"], 40, 3);
    // A consumer that gets less CPU time gets fewer messages.
    fairly_shared(&found["fast"], 2000, 4);
    assert_eq!(found["finished"], 2040, "{found}");
    assert_eq!(sandbox.balanced("tasks").await["delivered_total"], 2040);
}

/// Checks that each has at least 1/`part` of the total, for example a third.
fn fairly_shared(shares: &Value, of: u64, part: u64) {
    let shares: Vec<u64> = serde_json::from_value(shares.clone()).unwrap();
    assert_eq!(shares.iter().sum::<u64>(), of, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= of / part), "{shares:?} of {of}");
}

#[tokio::test]
async fn what_runs_and_waits_is_shown_and_nothing_is_queued_twice() {
    let sandbox = Sandbox::open(2).await;
    let found = {
        // Each job takes longer than three leases.
        let settings = [("LEASE_MS", "1000"), ("JOB_MS", "3300")];
        sandbox.run("06-running-and-waiting.mjs", &settings).await
    };
    // 20 jobs for 4 runners. No answer waited for a job: jobs could end only after all 20 answers.
    assert_eq!((&found["jobs"], &found["asked"]), (&json!(20), &json!(20)), "{found}");
    let shown = &found["shown"];
    assert_eq!((&shown["running"], &shown["which"]), (&json!(4), &json!(4)), "{found}");
    assert_eq!((&shown["waiting"], &shown["next"]), (&json!(16), &json!(16)), "{found}");
    assert_eq!((&found["together"], &found["runs"]), (&json!(20), &json!(true)), "{found}");
    // The same jobs were requested again meanwhile. They kept their sequences, and each ran once.
    assert_eq!((&found["again"], &found["unchanged"]), (&json!(20), &json!([16, 4])), "{found}");
    assert_eq!((&found["ran"], &found["different"]), (&json!(20), &json!(20)), "{found}");
    // A job that was requested again after its end ran again.
    assert_eq!((&found["anew"], &found["results"]), (&json!(true), &json!(21)), "{found}");
    let numbers = sandbox.balanced("jobs").await;
    assert_eq!((&numbers["last_sequence"], &numbers["delivered_total"]), (&json!(21), &json!(21)));
}
