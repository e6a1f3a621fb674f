//! Recipes 8 and 9: providers that delete during processing, and resources that are taken two at a time.

use serde_json::json;

use crate::sandbox::Sandbox;

#[tokio::test]
async fn deleted_entries_have_no_effect_and_others_exactly_one() {
    let sandbox = Sandbox::open(2).await;
    let found = sandbox.run("08-provider-and-processor.mjs", &[]).await;
    let number = |field: &str| found[field].as_u64().unwrap_or_else(|| panic!("{field}: {found}"));
    assert_eq!(number("added"), 600, "{found}");
    assert_eq!(number("delivered") + number("cancelled"), 600, "{found}");
    assert_eq!(number("effects"), number("delivered"), "{found}");
    for wrong in [
        "effectsTwice",
        "wrongEffects",
        "effectsOfDeleted",
        "effectsOfCancelled",
        "begunAfterDeletion",
    ] {
        assert_eq!(number(wrong), 0, "{wrong}: {found}");
    }
    assert_eq!(number("refusedButCancelled"), 0, "{found}");
    assert_eq!(found["late"], json!(["409 wrong_state"]), "{found}");
    // All three worked at the same time.
    assert!(number("confirmed") > 20 && number("delivered") > 20, "{found}");
    assert!(number("listings") > 5, "{found}");
    let numbers = sandbox.balanced("entries").await;
    assert_eq!(numbers["pending"], 0);
    assert_eq!(numbers["delivered_total"], found["delivered"]);
    assert_eq!(numbers["cancelled_total"], found["cancelled"]);
    sandbox.forgotten().await;
}

#[tokio::test]
async fn never_more_is_taken_than_there_is_and_everybody_gets_through() {
    let sandbox = Sandbox::open(2).await;
    let found = sandbox.run("09-two-resources-or-none.mjs", &[]).await;
    // 20 takers, 20 takes each, in two rounds. Each fifth take fails, and still gives its resources back.
    assert_eq!(found["takes"], 2 * 20 * 16, "{found}");
    assert_eq!((&found["errors"], &found["through"]), (&json!(2 * 20 * 4), &json!(20)), "{found}");
    for wrong in ["shared", "tooEarly", "stale"] {
        assert_eq!(found[wrong], 0, "{wrong}: {found}");
    }
    let most = found["most"].as_u64().unwrap();
    assert!((8..=10).contains(&most), "{found}");
    let numbers = sandbox.balanced("resources").await;
    assert_eq!((&numbers["waiting"], &numbers["processing"]), (&json!(9), &json!(0)), "{numbers}");
    assert_eq!(
        (&numbers["dropped_total"], &numbers["halted"]),
        (&json!(1), &json!(0)),
        "{numbers}"
    );
}
