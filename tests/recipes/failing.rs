//! Recipe 14: messages that fail.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const POISON: [u64; 4] = [10, 35, 60, 85];

fn numbers_of(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect()
}

fn without_poison() -> Vec<u64> {
    (0..100).filter(|item| !POISON.contains(item)).collect()
}

#[tokio::test]
async fn failing_message_is_retried_set_aside_discarded_or_halts() {
    let sandbox = Sandbox::open(2).await;
    let found = sandbox.run("14-retry-and-dead-letters.mjs", &[]).await;
    retried(&found["retry"]);
    assert_eq!(sandbox.balanced("retry").await["delivered_total"], 100);

    set_aside(&found["letters"]);
    let numbers = sandbox.balanced("letters").await;
    // Redriven messages count as new arrivals.
    let totals = ["last_sequence", "delivered_total", "dead_lettered_total", "dead_letters"];
    let totals = totals.map(|field| numbers[field].as_u64().unwrap());
    assert_eq!(totals, [104, 100, 4, 0], "{numbers}");

    let discard = &found["discard"];
    assert_eq!(numbers_of(&discard["took"]), without_poison(), "{discard}");
    assert_eq!(discard["dead_letters"], 0);
    assert_eq!(sandbox.balanced("discard").await["dropped_total"], 4);

    halted(&found["halt"]);
    assert_eq!(sandbox.balanced("halt").await["delivered_total"], 100);
    sandbox.forgotten().await;
}

/// Checks that all messages arrived in order, and each poison message at its sixth attempt, after
/// backoffs that grow and differ.
fn retried(retry: &Value) {
    assert_eq!(numbers_of(&retry["took"]), (0..100).collect::<Vec<u64>>(), "{retry}");
    assert_eq!(numbers_of(&retry["attempts"]), [6; 4], "{retry}");
    let waits: Vec<Vec<u64>> = retry["waits"].as_array().unwrap().iter().map(numbers_of).collect();
    assert!(waits.iter().any(|wait| wait != &waits[0]), "no jitter: {waits:?}");
}

/// Checks that the poison messages became dead letters after three attempts, the others arrived
/// in order, and the redriven ones arrived after them, in order too.
fn set_aside(letters: &Value) {
    assert_eq!(numbers_of(&letters["before"]), without_poison(), "{letters}");
    let set_aside: Vec<Value> =
        POISON.iter().map(|item| json!({"sequence": item + 1, "attempts": 3})).collect();
    assert_eq!(letters["letters"], json!(set_aside), "{letters}");
    assert_eq!((&letters["body"], &letters["error"]), (&json!({"item": 10}), &json!(500)));
    assert_eq!((&letters["matched"], &letters["redriven"]), (&json!(4), &json!(4)));
    assert_eq!(numbers_of(&letters["after"]), POISON, "{letters}");
    let origins = letters["origins"].as_array().unwrap();
    assert_eq!(origins.len(), 4, "{letters}");
    for (origin, item) in origins.iter().zip(POISON) {
        let origin = origin.as_str().unwrap();
        assert!(origin.starts_with("letters/"), "{origin}");
        assert!(origin.ends_with(&format!("/{}", item + 1)), "{origin}");
    }
    assert_eq!(letters["dead_letters"], 0);
}

/// Checks that the repaired messages left at their own positions, and no message behind them left earlier.
fn halted(halt: &Value) {
    let expected: Vec<Value> = (0..100)
        .map(|item| match POISON.contains(&item) {
            true => json!(format!("mended {item}")),
            false => json!(item),
        })
        .collect();
    assert_eq!(halt["took"], json!(expected), "{halt}");
    let mended: Vec<Value> = POISON
        .iter()
        .map(|item| json!({"sequence": item + 1, "blocked_by": "operator", "took": item}))
        .collect();
    assert_eq!(halt["mended"], json!(mended), "{halt}");
}
