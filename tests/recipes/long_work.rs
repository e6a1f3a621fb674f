//! Recipes 10 and 11: an import that is killed midway, and one heavy client among many.

use std::{fmt::Write, time::Instant};

use serde_json::{Value, json};

use crate::sandbox::{RecipeProcess, Sandbox};

const IMPORT: &str = "10-long-import.mjs";
const LINES: u64 = 20_000;

fn checkpoint(line: &Value) -> u64 {
    line["checkpoint"].as_u64().unwrap_or_default()
}

/// The last checkpoint that a worker has printed.
fn last_checkpoint(worker: &RecipeProcess) -> u64 {
    worker.said().iter().map(checkpoint).max().unwrap_or_default()
}

#[tokio::test]
async fn an_import_that_is_killed_goes_on_from_its_checkpoint() {
    let sandbox = Sandbox::open(2).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines");
    let mut text = String::new();
    (1..=LINES).for_each(|line| writeln!(text, "line {line}").unwrap());
    std::fs::write(&file, text).unwrap();
    let mut import = sandbox.start(IMPORT, &["import", file.to_str().unwrap()], &[]);
    import.says("that it is sent", |line| line["sequence"] == 1).await;

    // The first worker is killed at a random row. Its lease is short.
    let mut first = sandbox.start(IMPORT, &["worker"], &[("LEASE_MS", "2000")]);
    let somewhere = rand::random_range(1..6_000);
    first.says("a checkpoint", |line| checkpoint(line) >= somewhere).await;
    first.child().kill().unwrap();
    first.child().wait().unwrap();
    let left_at = last_checkpoint(&first);
    assert!(left_at < LINES, "it was too quick to be killed in the middle");

    // The second worker continues when that lease has expired. Its own lease is too long to wait for.
    let mut second = sandbox.start(IMPORT, &["worker"], &[("LEASE_MS", "600000")]);
    let begun = second.says("where it begins", |line| line["from"].is_u64()).await;
    let begins_at = begun["from"].as_u64().unwrap();
    // The first worker may have been killed before it printed its last checkpoint.
    assert!((left_at..=left_at + 100).contains(&begins_at), "{begun} after {left_at}");
    assert_eq!(begun["attempt"], 2, "{begun}");
    second.says("a checkpoint", |line| checkpoint(line) >= begins_at + somewhere).await;

    // The second worker is asked to end, and requeues the message at once.
    let told = Instant::now();
    second.terminate();
    let last_words = second.finish().await;
    assert_eq!(last_words, json!({"handedBack": true}));
    let mut third = sandbox.start(IMPORT, &["worker"], &[("LEASE_MS", "600000")]);
    let begun = third.says("where it begins", |line| line["from"].is_u64()).await;
    let waited = told.elapsed();
    assert!(waited.as_secs() < 30, "the third began after {waited:?}: {begun}");
    // Requeuing a message adds no failed attempt.
    assert_eq!(begun["attempt"], 2, "{begun}");
    assert!(begun["from"].as_u64().unwrap() >= begins_at + somewhere, "{begun}");

    let found = import.finish().await;
    assert_eq!((&found["imported"], &found["lines"]), (&json!(LINES), &json!(LINES)), "{found}");
    assert_eq!(found["once"], LINES, "{found}");
    assert_eq!((&found["first"], &found["last"]), (&json!("line 1"), &json!("line 20000")));
    // Only chunks in progress when a worker ended came twice.
    let calls: Vec<u64> =
        found["calls"].as_array().unwrap().iter().map(|first| first.as_u64().unwrap()).collect();
    assert!(calls.len() as u64 <= LINES / 100 + 1, "{calls:?}");
    assert!(calls.is_sorted(), "a line before the checkpoint was imported again: {calls:?}");
    assert_eq!(sandbox.balanced("imports").await["delivered_total"], 1);
}

#[tokio::test]
async fn a_heavy_client_does_not_starve_the_others() {
    let sandbox = Sandbox::open(2).await;
    let found = sandbox.run("11-many-clients.mjs", &[]).await;
    assert_eq!((&found["clients"], &found["listed"]), (&json!(1000), &json!(1000)), "{found}");
    assert_eq!((&found["othersDone"], &found["heavyDone"]), (&json!(999), &json!(5000)), "{found}");
    assert_eq!(found["inOrder"], true, "{found}");
    // The other clients were finished when most of the heavy client's work was still pending.
    assert!(found["heavyDoneThen"].as_u64().unwrap() < 2_500, "{found}");
    assert_eq!(sandbox.balanced("client-0000").await["delivered_total"], 5_000);
    assert_eq!(sandbox.balanced("client-0999").await["delivered_total"], 3);
}
