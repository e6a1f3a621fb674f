//! Incidents of work: workers that are gone, a wrong definition, a long backlog, a destination that was removed.

use serde_json::json;

use super::{Says, give_clock, is_quiet, lines_of, send_many, step};
use crate::{
    operations::commands::run_at,
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

#[tokio::test]
async fn worker_that_is_gone_is_named_with_its_expired_lease() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    give_clock(&scenario).await;
    let before = lines_of(&scenario.pod);
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.lease(json!({"worker": "w-7", "lease_ms": 1000})).await;
    step(&scenario, 120);
    let says = Says {
        why: &["worker", "w-7"],
        doctor: &["No worker or consumer takes its messages", "Start its workers"],
        status: &["erp", "nobody takes any"],
        console: &["\"no_worker\""],
        log: &["leases expired", "w-7"],
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
}

#[tokio::test]
async fn unreachable_service_names_the_wrong_definition() {
    let scenario = Scenario::start(json!({})).await;
    give_clock(&scenario).await;
    let definition = json!({"url": scenario.receiver_url, "transform": {"kind": "http",
        "url": "http://127.0.0.1:9/typo", "attempts_max": 0, "backoff_ms": 10, "backoff_max_ms": 100}});
    scenario.define(ERP, definition).await;
    let before = lines_of(&scenario.pod);
    scenario.send_all(&["one", "two"]).await;
    scenario.until("it has failed", |stats| stats["head"]["attempts"].as_u64() > Some(2)).await;
    step(&scenario, 120);
    let says = Says {
        why: &["wait for another attempt to process", "Connection refused"],
        doctor: &["failing since", "reseq why erp"],
        status: &["erp", "failing for longer than a minute"],
        console: &["\"failing\""],
        log: &["began to fail", "erp"],
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
    // The way out: a definition without the typing error.
    let definition = json!({"url": scenario.receiver_url});
    scenario.define(ERP, scenario.with_transform(definition)).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn long_backlog_is_said_to_drain_with_rate_and_time_left() {
    const WAITING: usize = 2_000;
    let definition = json!({"backlog_max": 2_400, "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    send_many(&scenario, WAITING).await;
    let leases = scenario.lease(json!({"max": 20})).await;
    scenario.end("complete", &leases, json!({"body": 1})).await;
    scenario.until("some have left", |stats| stats["delivered_total"] == 20).await;
    let held = scenario.lease(json!({"max": 20})).await;
    let says = Says {
        why: &["behind"],
        doctor: &["messages are pending", "backlog_max", "reseq why erp"],
        ..Says::default()
    };
    says.by(&scenario.pod).await;
    let works = async {
        loop {
            let leases = scenario.lease(json!({"max": 2})).await;
            assert!(!leases.is_empty(), "why does not say that the backlog drains");
            scenario.end("complete", &leases, json!({"body": 1})).await;
        }
    };
    scenario.end("complete", &held, json!({"body": 1})).await;
    let drains = eventually("why says that it drains", async || {
        let why = scenario.prints(&["why", ERP]).await;
        if why.contains("drain") { Ok(()) } else { Err(why) }
    });
    tokio::select! {
        () = works => {}
        () = drains => {}
    }
}

#[tokio::test]
async fn error_of_a_removed_destination_names_who_removed_it() {
    let scenario = Scenario::start(json!({})).await;
    scenario.prints(&["destinations", "delete", ERP, "--yes"]).await;
    let url = scenario.pod.url("");
    let why = run_at(&url, &["why", ERP], &[], "").await.failed(3, "unknown_destination");
    assert_eq!(why, "");
    let item = json!({"destinations": [ERP], "body": 1});
    let (status, answer) = scenario.ask("POST", "/v1/messages", item).await;
    assert_eq!((status, &answer["code"]), (404, &json!("unknown_destination")), "{answer}");
    let audit = scenario.prints(&["audit"]).await;
    assert!(audit.contains("erp") && audit.contains("remove_destination"), "{audit}");
    let log = scenario.pod.log();
    assert!(
        log.lines().any(|line| line.contains("destination=\"erp\"") && line.contains("remove_destination")),
        "{log}"
    );
}
