//! Recipes 0 and 1: webhooks that reach an ERP in order, and orders with a rotating short code.

use serde_json::json;

use crate::sandbox::Sandbox;

#[tokio::test]
async fn no_two_open_orders_share_a_code_and_each_is_called_once() {
    let sandbox = Sandbox::open(3).await;
    // While all codes are in use, the instances wait for the second that `Retry-After` names.
    let found = sandbox.run("01-rotating-codes.mjs", &[("ORDERS", "3000")]).await;
    assert_eq!(found["placed"], 3_000, "{found}");
    assert_eq!((&found["called"], &found["once"]), (&json!(3_000), &json!(3_000)), "{found}");
    assert_eq!(found["shared"], 0, "{found}");
    // All codes were in use, each as often as the others.
    assert_eq!((&found["codes"], &found["perCode"]), (&json!([1, 100]), &json!([30])), "{found}");
    assert_eq!(sandbox.balanced("kitchen").await["delivered_total"], 3_000);
}

#[tokio::test]
async fn webhooks_reach_erp_in_order_despite_poison_and_repeats() {
    let sandbox = Sandbox::open(2).await;
    let found = sandbox.run("00-webhook-to-erp.mjs", &[]).await;
    assert_eq!((&found["booked"], &found["different"]), (&json!(59), &json!(59)), "{found}");
    assert_eq!((&found["inOrder"], &found["deadLetters"]), (&json!(true), &json!(1)), "{found}");
    let missing = json!([{"customer": "customer 2", "state": "dead_lettered"}]);
    assert_eq!(found["missing"], missing, "{found}");
    let numbers = sandbox.balanced("erp").await;
    assert_eq!((&numbers["last_sequence"], &numbers["delivered_total"]), (&json!(60), &json!(59)));
}
