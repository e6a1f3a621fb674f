//! Tests pods of this version and of the next one on the same Redis: a rolling upgrade, the
//! migration after it, and an old pod that was left behind.
//!
//! The next version is this one with RESEQ_NEXT_SCHEMA, which makes it know one more schema
//! (feature `next-schema`). Its records begin with '4' and are otherwise equal.

use crate::support;

mod cost;
mod deployment;

use std::time::Instant;

use deployment::{Deployment, NEXT, NOW, Version};
use support::{
    checker::{check, drained, stats},
    gate::Point,
    pods::{Pod, client},
    wait::eventually,
};

const SENTENCE: &str =
    "Redis holds schema 4 of Reseq, and this version knows 3: start a newer version";

const TOO_OLD: &str = "Redis holds schema 2 of Reseq, and this version reads schema 3 and later: \
                       use an empty Redis, another redis.prefix, or the version that wrote it";

#[tokio::test]
async fn a_schema_that_is_too_old_is_refused_by_name() {
    let deployment = Deployment::new().await;
    deployment.refuses_a_schema_that_is_too_old().await;
}

#[tokio::test]
async fn two_versions_coexist_until_migration_shuts_out_the_older() {
    let deployment = Deployment::new().await;
    let mut older = deployment.pods(NOW).await;
    let mut newer = deployment.pods(NEXT).await;
    // While both versions run, each reads the other's records.
    deployment.send("together", &[&older[0], &newer[0]], 200).await;
    deployment.arrives(2 * 200).await;
    assert_eq!(deployment.formats_of_some(&newer[0]).await, ["3"], "all write what all can read");

    let refused = deployment.migrate(NEXT, &[]).await.unwrap_err();
    assert!(refused.contains("3 live pods have an older version"), "{refused}");
    assert_eq!(
        deployment.schemas().await,
        [None; 4],
        "a migration that is refused changes nothing"
    );

    // One old pod is frozen, not stopped: it sends no heartbeat, and will continue later.
    let mut frozen =
        Pod::start("frozen", "ingest,processor,sender", &deployment.settings(NOW)).await;
    frozen.freeze();
    for pod in &mut older {
        pod.drains().await;
    }
    deployment.migrates(&newer).await;
    deployment.send("after", &[&newer[0]], 100).await;
    deployment.arrives(2 * 300).await;
    assert_eq!(deployment.formats_of_some(&newer[0]).await, ["4"]);
    drained(&newer[0], &deployment.ledger, &["orders", "accounts"]).await;
    let found = check(&deployment.ledger, &deployment.inbox.journal, &deployment::RULES);
    assert_eq!(found.messages, deployment.ledger.count());

    deployment.refuses_to_start_an_older_pod().await;
    for pod in &mut newer {
        pod.drains().await;
    }
    changes_nothing_and_says_why(&deployment, &mut frozen).await;
}

/// A pod that was frozen during the migration continues, without any other pod.
async fn changes_nothing_and_says_why(deployment: &Deployment, pod: &mut Pod) {
    let before = deployment.partitions().await;
    assert!(!before.is_empty());
    let thawed = Instant::now();
    pod.thaw();
    eventually("the pod says why it does nothing", async || {
        if pod.log().contains(SENTENCE) { Ok(()) } else { Err(pod.log()) }
    })
    .await;
    let body = "{\"destinations\":[\"orders\"],\"body\":\"late\"}";
    let request = client().post(pod.url("/v1/messages")).body(body);
    let answer = request.header("content-type", "application/json").send().await.unwrap();
    assert_eq!(answer.status(), 503);
    let text = answer.text().await.unwrap();
    assert!(text.contains("newer_schema") && text.contains(SENTENCE), "{text}");
    let ready = client().get(pod.url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.text().await.unwrap().contains(SENTENCE));
    // Keys with an expiry may have expired.
    for (key, value) in deployment.partitions().await {
        assert_eq!(before.get(&key), Some(&value), "{key} was changed");
    }
    pod.terminate();
    pod.ended().await;
    let log = pod.log();
    let told = log.lines().filter(|line| line.contains(" ERROR ") && line.contains(SENTENCE));
    let (told, seconds) = (told.count() as u64, thawed.elapsed().as_secs());
    assert!((1..=seconds + 1).contains(&told), "said {told} times in {seconds} s");
}

#[tokio::test]
async fn broken_off_migration_resumes_and_a_second_does_nothing() {
    let deployment = Deployment::new().await;
    let newer = deployment.pods(NEXT).await;
    deployment.send("before", &[&newer[0]], 40).await;
    let told = deployment.migrate(NEXT, &["--dry-run"]).await.unwrap();
    assert!(told.contains("4 of 4 partitions are to be raised to schema 4"), "{told}");
    assert!(told.contains("nothing was changed"), "{told}");
    assert_eq!(deployment.schemas().await, [None; 4]);

    // The state after a migration that was killed after its second partition.
    deployment.raise(&[0, 1]).await;
    deployment.send("between", &[&newer[0]], 40).await;
    let told = deployment.migrate(NEXT, &[]).await.unwrap();
    assert!(told.contains("2 of 4 partitions are to be raised to schema 4"), "{told}");
    assert_eq!(deployment.schemas().await, [Some(4); 4]);
    let told = deployment.migrate(NEXT, &[]).await.unwrap();
    assert!(told.contains("nothing to do"), "{told}");
    deployment.send("after", &[&newer[0]], 40).await;
    deployment.arrives(2 * 120).await;
    drained(&newer[0], &deployment.ledger, &["orders", "accounts"]).await;
    check(&deployment.ledger, &deployment.inbox.journal, &deployment::RULES);
    cancels_a_record_of_the_new_format(&deployment, &newer[0]).await;

    // The older version cannot migrate back.
    let refused = deployment.migrate(NOW, &[]).await.unwrap_err();
    assert!(refused.contains(SENTENCE), "{refused}");
}

/// A script makes a tombstone of a record, and must know its format.
async fn cancels_a_record_of_the_new_format(deployment: &Deployment, pod: &Pod) {
    deployment.inbox.gate.hold(Point::Arrived);
    deployment.send("cancelled", &[pod], 20).await;
    let last = stats(pod, "orders").await.unwrap()["last_sequence"].clone();
    let url = pod.url(&format!("/v1/destinations/orders/messages/{last}"));
    let answer = client().delete(url).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    deployment.inbox.gate.let_go();
    eventually("the message has left as it should", async || {
        let numbers = stats(pod, "orders").await?;
        let is_gone = numbers["pending"] == 0 && numbers["cancelled_total"] == 1;
        if is_gone { Ok(()) } else { Err(numbers.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn next_version_pod_alone_writes_what_the_older_one_reads() {
    let deployment = Deployment::new().await;
    let mut newer = deployment.pods(NEXT).await;
    deployment.inbox.gate.hold(Point::Arrived);
    deployment.send("newer", &[&newer[0]], 50).await;
    for pod in &mut newer {
        pod.kill();
    }
    deployment.inbox.gate.let_go();
    // After a rollback, this version takes over the data of the next one.
    let older = deployment.pods(Version { is_next: false }).await;
    deployment.send("older", &[&older[0]], 50).await;
    drained(&older[0], &deployment.ledger, &["orders", "accounts"]).await;
    check(&deployment.ledger, &deployment.inbox.journal, &deployment::RULES);
}
