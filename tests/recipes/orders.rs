//! Recipe 1: orders from several instances with a rotating short code.

use serde_json::json;

use crate::kitchen::Kitchen;

/// With 3,000 orders in place of the recipe's 10,000, which take about a minute in a debug build: they
/// are delivered one after the other.
#[tokio::test]
async fn no_two_open_orders_share_a_code_and_each_is_called_once() {
    let kitchen = Kitchen::open(3).await;
    let found = kitchen.cook("01-rotating-codes.mjs", &[("ORDERS", "3000")]).await;
    assert_eq!(found["placed"], 3_000, "{found}");
    assert_eq!((&found["called"], &found["once"]), (&json!(3_000), &json!(3_000)), "{found}");
    assert_eq!(found["shared"], 0, "{found}");
    // All codes were in use, each as often as the others.
    assert_eq!((&found["codes"], &found["perCode"]), (&json!([1, 100]), &json!([30])), "{found}");
    assert_eq!(kitchen.balanced("kitchen").await["delivered_total"], 3_000);
}
