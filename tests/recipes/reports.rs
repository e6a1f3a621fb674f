//! Recipe 3: report only what is not resolved in time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    sandbox::{RecipeProcess, Sandbox},
    support::{checker::forgotten, wait::eventually},
};

const RECIPE: &str = "03-report-unless-resolved.mjs";

#[tokio::test]
async fn only_what_is_not_resolved_is_notified_and_once() {
    let sandbox = Sandbox::open(1).await;
    let found = sandbox.run(RECIPE, &[("DELAY_MS", "3000")]).await;
    assert_eq!((&found["reported"], &found["reportedAgain"]), (&json!(40), &json!(0)), "{found}");
    assert_eq!((&found["resolved"], &found["cameBack"]), (&json!(20), &json!(true)), "{found}");
    assert_eq!((&found["notified"], &found["different"]), (&json!(21), &json!(21)), "{found}");
    let numbers = sandbox.balanced("reports").await;
    assert_eq!(
        (&numbers["delivered_total"], &numbers["cancelled_total"]),
        (&json!(21), &json!(20))
    );
}

/// The delay is long enough for a restart and two new pods, even on a slow machine.
#[tokio::test]
async fn reports_outlive_a_kill_and_can_be_resolved_through_any_pod() {
    let delay = [("DELAY_MS", "10000")];
    let mut sandbox = Sandbox::open(1).await;
    let notifier = sandbox.start(RECIPE, &["notify"], &delay);
    eventually("the notifier is ready", async || {
        let said = notifier.said();
        if said.contains(&json!({"ready": true})) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
    let errors: Vec<String> = (0..30).map(|number| format!("error {number}")).collect();
    let run = async |sandbox: &Sandbox, part: &str, some: &[String]| {
        let mut args = vec![part];
        args.extend(some.iter().map(String::as_str));
        sandbox.start(RECIPE, &args, &delay).finish().await
    };
    let reports = run(&sandbox, "report", &errors).await;
    assert_eq!(reports["reports"].as_array().unwrap().len(), 30);
    let resolved = run(&sandbox, "resolve", &errors[..10]).await;
    assert_eq!(resolved, json!({"resolved": vec![true; 10]}));

    sandbox.pods[0].kill();
    sandbox.pods[0].restart().await;
    sandbox.add_pod().await;
    sandbox.add_pod().await;
    let resolved = run(&sandbox, "resolve", &errors[10..20]).await;
    assert_eq!(resolved, json!({"resolved": vec![true; 10]}), "in time, through all three");

    let notified = all_notified(&notifier, 10).await;
    let expected: BTreeMap<String, usize> =
        errors[20..].iter().map(|error| (error.clone(), 1)).collect();
    assert_eq!(notified, expected);
    let numbers = eventually("nothing is left", async || {
        let numbers = sandbox.balanced("reports").await;
        if numbers["pending"] == 0 { Ok(numbers) } else { Err(numbers.to_string()) }
    })
    .await;
    assert_eq!(
        (&numbers["delivered_total"], &numbers["cancelled_total"]),
        (&json!(10), &json!(20))
    );
    // The first report came while the notifier was down, and was delivered again.
    let refused = notifier.said().into_iter().find_map(|line| line.get("refused").cloned());
    let again = notifier.said().into_iter().find(|line| line.get("notified") == refused.as_ref());
    assert!(again.is_some_and(|line| line["attempt"].as_u64() >= Some(2)), "{:?}", notifier.said());
    forgotten(&mut sandbox.redis.connection().await).await;
}

/// Waits until `count` reports were notified. Returns how often each was.
async fn all_notified(notifier: &RecipeProcess, count: usize) -> BTreeMap<String, usize> {
    eventually("the rest is notified", async || {
        let mut times = BTreeMap::new();
        let said: Vec<Value> = notifier.said();
        for error in said.iter().filter_map(|line| line["notified"].as_str()) {
            *times.entry(error.to_owned()).or_default() += 1;
        }
        if times.len() >= count { Ok(times) } else { Err(format!("{said:?}")) }
    })
    .await
}
