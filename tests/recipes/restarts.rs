//! Runs recipes while a pod dies, and after their destinations were removed and created again.

use serde_json::{Value, json};

use crate::{
    sandbox::Sandbox,
    support::{checker::stats, wait::eventually},
};

/// Runs a recipe on two pods. Kills one of them when a destination has had `sent` messages.
async fn with_a_death(
    recipe: &str,
    settings: &[(&str, &str)],
    destination: &str,
    sent: u64,
) -> Value {
    let mut sandbox = Sandbox::open(2).await;
    let recipe = sandbox.start(recipe, &[], settings);
    eventually("the recipe is in the middle of it", async || {
        let last = match stats(&sandbox.pods[0], destination).await {
            Ok(numbers) => numbers["last_sequence"].as_u64().unwrap_or_default(),
            Err(_) => 0,
        };
        if last >= sent { Ok(()) } else { Err(format!("{last} messages")) }
    })
    .await;
    sandbox.pods[1].kill();
    recipe.finish().await
}

#[tokio::test]
async fn orders_are_called_once_though_a_pod_dies() {
    let found = with_a_death("01-rotating-codes.mjs", &[("ORDERS", "600")], "kitchen", 200).await;
    assert_eq!((&found["called"], &found["once"]), (&json!(600), &json!(600)), "{found}");
}

#[tokio::test]
async fn tasks_are_finished_though_a_pod_dies() {
    let found = with_a_death("05-two-consumers.mjs", &[("FAST", "1000")], "tasks", 20).await;
    assert_eq!(found["finished"], 1040, "{found}");
}

#[tokio::test]
async fn accounts_are_right_though_a_pod_dies() {
    let settings = [("ACCOUNTS", "50"), ("WITHDRAWALS", "600")];
    let found = with_a_death("07-bank-accounts.mjs", &settings, "accounts", 200).await;
    assert_eq!((&found["withdrawals"], &found["wrong"]), (&json!(600), &json!(0)), "{found}");
}

#[tokio::test]
async fn entries_take_effect_once_though_a_pod_dies() {
    let found =
        with_a_death("08-provider-and-processor.mjs", &[("ENTRIES", "300")], "entries", 50).await;
    assert_eq!((&found["added"], &found["wrongEffects"]), (&json!(300), &json!(0)), "{found}");
    assert_eq!(found["effectsTwice"], 0, "{found}");
    // The dead sender may have delivered entries without settling them: these can still be
    // cancelled (reference, Cancel).
    let number = |field: &str| found[field].as_u64().unwrap_or_else(|| panic!("{found}"));
    assert_eq!(number("effects"), number("delivered") + number("effectsOfCancelled"), "{found}");
}

#[tokio::test]
async fn resources_come_back_though_a_pod_dies() {
    let found =
        with_a_death("09-two-resources-or-none.mjs", &[("TAKES", "10")], "resources", 10).await;
    assert_eq!((&found["shared"], &found["left"]), (&json!(0), &json!(9)), "{found}");
}

/// Three senders send each due time. The recipe kills them ten times, and this kills a pod.
#[tokio::test]
async fn due_times_arrive_once_though_senders_and_a_pod_die() {
    let found =
        with_a_death("15-schedules.mjs", &[("COUNT", "60"), ("KILLS", "10")], "hourly", 20).await;
    assert_eq!((&found["arrived"], &found["eachOnce"]), (&json!(60), &json!(true)), "{found}");
    assert_eq!((&found["kills"], &found["early"]), (&json!(10), &json!(0)), "{found}");
}

#[tokio::test]
async fn a_kitchen_that_is_made_again_calls_all_orders() {
    let sandbox = Sandbox::open(1).await;
    let settings = [("ORDERS", "150"), ("DAYS", "2")];
    let found = sandbox.run("01-rotating-codes.mjs", &settings).await;
    assert_eq!((&found["called"], &found["once"]), (&json!(300), &json!(300)), "{found}");
    assert_eq!(found["shared"], 0, "{found}");
}

/// Proves that the tests of recreated destinations detect a missing epoch.
#[tokio::test]
async fn receiver_ignoring_epochs_skips_recreated_destination() {
    let mut sandbox = Sandbox::open(1).await;
    sandbox.forget_epochs();
    let settings = [("ORDERS", "150"), ("DAYS", "2")];
    let found = sandbox.run("01-rotating-codes.mjs", &settings).await;
    assert_eq!((&found["placed"], &found["called"]), (&json!(300), &json!(150)), "{found}");
}

#[tokio::test]
async fn accounts_are_right_though_their_destination_is_made_again() {
    let sandbox = Sandbox::open(1).await;
    let settings = [("ACCOUNTS", "20"), ("WITHDRAWALS", "200"), ("PARTS", "2")];
    let found = sandbox.run("07-bank-accounts.mjs", &settings).await;
    assert_eq!((&found["withdrawals"], &found["wrong"]), (&json!(200), &json!(0)), "{found}");
    assert_eq!(found["open"], 0, "{found}");
}

/// Also recreates destinations, while another destination of this Reseq has a pending message.
#[tokio::test]
async fn clients_are_served_though_their_destinations_are_made_again() {
    let sandbox = Sandbox::open(1).await;
    let path = sandbox.pods[0].url("/v1/destinations/other");
    let other = json!({"url": "http://127.0.0.1:9/"});
    let client = reqwest::Client::new();
    assert_eq!(client.put(&path).json(&other).send().await.unwrap().status(), 201);
    let sent = client.post(format!("{path}/messages")).body("pending").send().await.unwrap();
    assert_eq!(sent.status(), 202);
    let settings =
        [("CLIENTS", "20"), ("HEAVY", "60"), ("EACH", "3"), ("WORKERS", "4"), ("ROUNDS", "2")];
    let found = sandbox.run("11-many-clients.mjs", &settings).await;
    assert_eq!((&found["heavyDone"], &found["othersDone"]), (&json!(120), &json!(19)), "{found}");
    assert_eq!(found["inOrder"], true, "{found}");
}

/// A recipe without the argument that it needs reports that.
#[tokio::test]
async fn a_recipe_that_lacks_an_argument_says_so() {
    let sandbox = Sandbox::open(1).await;
    for (recipe, args) in [
        ("10-long-import.mjs", &[][..]),
        ("10-long-import.mjs", &["import"]),
        ("03-report-unless-resolved.mjs", &["report"]),
        ("03-report-unless-resolved.mjs", &["nonsense"]),
    ] {
        let (status, errors) = sandbox.start(recipe, args, &[]).refused().await;
        assert_eq!(status, Some(2), "{recipe} {args:?}");
        assert!(errors.contains("usage: node"), "{recipe} {args:?}: {errors}");
    }
}
