//! Tests journeys on a primary, its replicas and their sentinels.

use serde_json::Value;

use crate::{
    operations::commands::run_at,
    support::{
        pods::{Pod, Settings, client, refused_start},
        sentinel::TestSentinel,
        wait::eventually,
    },
    topologies::journey::Journey,
};

const COUNT: usize = 150;

#[tokio::test]
async fn journey_survives_a_failover_and_back_complete_and_in_order() {
    let redis = TestSentinel::start(2).await;
    let journey = Journey::start(&redis.url(), &["erp", "crm", "log"]).await;
    journey.produce("before", COUNT).await;
    // A failover loses writes that the replicas do not have yet. Here there are none.
    redis.in_sync().await;
    redis.nodes[0].kill();
    let meanwhile =
        async { tokio::join!(redis.other_primary(0), journey.produce("meanwhile", COUNT)) };
    let stall = journey.stall("erp", meanwhile).await;
    println!("the primary was killed: the longest time without a delivery was {stall:?}");
    redis.nodes[0].restart().await;
    redis.wait_until_ok().await;
    redis.failover().await;
    // Until the replicas are in sync, the old primary accepts writes that it will lose.
    redis.in_sync().await;
    journey.produce("after", COUNT).await;
    journey.end().await;
    let wakes = journey.wakes_of("erp", 10).await;
    assert!(wakes >= 1.0, "{wakes} wake-ups a message");
}

#[tokio::test]
async fn doctor_counts_the_sentinels_that_could_fail_over() {
    let redis = TestSentinel::start(1).await;
    let pod = Pod::start("reseq", "ingest,processor,sender", &Settings::new(&redis.url())).await;
    let found = async |expected: &[&str]| {
        eventually("doctor says so", async || {
            let answer = client().get(pod.url("/v1/doctor")).send().await.unwrap();
            let report: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            let findings = report["findings"].as_array().unwrap().iter();
            let findings = findings.filter(|finding| finding["check"] == "redis_sentinels");
            let found: Vec<&str> =
                findings.map(|finding| finding["severity"].as_str().unwrap()).collect();
            if found == expected { Ok(()) } else { Err(report.to_string()) }
        })
        .await;
    };
    found(&[]).await;
    redis.sentinels[0].kill();
    found(&["warning"]).await;
    redis.sentinels[1].kill();
    // Two that do not answer, and one that knows that there is no quorum.
    found(&["error", "error", "error"]).await;
}

#[tokio::test]
async fn unresponsive_primary_is_left_for_the_sentinels_choice() {
    let redis = TestSentinel::start(1).await;
    let journey = Journey::start(&redis.url(), &["erp"]).await;
    journey.produce("before", COUNT).await;
    redis.in_sync().await;
    redis.nodes[0].freeze();
    tokio::join!(redis.other_primary(0), journey.produce("meanwhile", COUNT));
    redis.nodes[0].thaw();
    redis.in_sync().await;
    journey.produce("after", COUNT).await;
    journey.end().await;
}

#[tokio::test]
async fn a_service_that_the_sentinels_do_not_know_is_refused_by_name() {
    let redis = TestSentinel::start(1).await;
    let url = redis.url().replace("/main", "/another");
    let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n[redis]\nurl = \"{url}\"\n");
    let (status, said) = refused_start(&config).await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("another") && said.contains("redis.url"), "{said}");
}

#[tokio::test]
async fn doctor_names_what_the_dead_primary_of_sentinels_holds() {
    let redis = TestSentinel::start(1).await;
    let settings = Settings::new(&redis.url()).destination("erp", "url = \"http://127.0.0.1:9/\"");
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    // With all servers dead, the sentinels choose no other primary.
    redis.nodes.iter().for_each(|node| node.kill());
    let ran = run_at(&pod.url(""), &["doctor", "-o", "json"], &[], "").await;
    let report: Value = serde_json::from_str(&ran.ended(5)).unwrap();
    let found = &report["findings"][0];
    assert_eq!(found["check"], "redis_reachable", "{report}");
    assert!(
        found["summary"].as_str().unwrap().contains("It holds 1 destination: erp."),
        "{report}"
    );
}
