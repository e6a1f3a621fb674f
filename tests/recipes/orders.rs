//! Recipe 1: orders from several instances with a rotating short code.

use serde_json::json;

use crate::sandbox::Sandbox;

#[tokio::test]
async fn no_two_open_orders_share_a_code_and_each_is_called_once() {
    let sandbox = Sandbox::open(3).await;
    let found = sandbox.cook("01-rotating-codes.mjs", &[]).await;
    assert_eq!(found["placed"], 10_000, "{found}");
    assert_eq!((&found["called"], &found["once"]), (&json!(10_000), &json!(10_000)), "{found}");
    assert_eq!(found["shared"], 0, "{found}");
    // All codes were in use, each as often as the others.
    assert_eq!((&found["codes"], &found["perCode"]), (&json!([1, 100]), &json!([100])), "{found}");
    assert_eq!(sandbox.balanced("kitchen").await["delivered_total"], 10_000);
}
