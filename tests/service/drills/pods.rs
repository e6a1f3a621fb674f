//! Incidents of pods and servers: a frozen pod, a wrong clock, a full disk, a Redis that is away, a token that ends.

use std::fs;

use serde_json::json;

use super::{Says, give_clock, is_quiet, lines_of, step};
use crate::{
    operations::commands::run_at,
    policies::scenario::{ERP, Scenario},
    support::{
        pods::{Pod, Settings},
        redis::TestRedis,
        wait::eventually,
    },
};

#[tokio::test]
async fn frozen_sender_is_named_as_owner_that_gave_no_sign_of_life() {
    let scenario = Scenario::start_apart(json!({})).await;
    scenario.redis.give_clock().await;
    eventually("Redis is back", async || {
        let (status, answer) = scenario
            .ask("PUT", "/v1/destinations/erp", json!({"url": scenario.receiver_url}))
            .await;
        if status < 300 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    scenario.send("one", json!({})).await;
    scenario.receives(&["one"]).await;
    let sender = scenario.sender.as_ref().unwrap();
    sender.freeze();
    let before = lines_of(&scenario.pod);
    scenario.send("two", json!({})).await;
    step(&scenario, 301);
    let says = Says {
        why: &["owner", "sender"],
        doctor: &["sender"],
        status: &["erp", "no sender delivers"],
        console: &["\"no_owner\""],
        log: &[],
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
    sender.thaw();
    scenario.receives(&["one", "two"]).await;
}

#[tokio::test]
async fn wrong_clock_is_named_by_its_seconds() {
    let scenario = Scenario::start(json!({})).await;
    give_clock(&scenario).await;
    step(&scenario, 600);
    let says = Says {
        doctor: &["The clock of Redis is 600.0 s ahead", "NTP"],
        log: &["the clock of this machine differs", "ahead_s=-"],
        ..Says::default()
    };
    says.by(&scenario.pod).await;
}

#[tokio::test]
async fn full_disk_of_redis_is_named_by_its_own_sentence() {
    let redis = TestRedis::start().await;
    let settings = Settings::new(redis.url()).destination(ERP, "url = \"http://127.0.0.1:9/\"");
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    // A snapshot cannot replace a directory: for Redis, that is an error like that of a full disk.
    let dir: Vec<String> = redis.ask(&["CONFIG", "GET", "dir"]).await.unwrap();
    fs::create_dir_all(format!("{}/dump.rdb/full", dir[1])).unwrap();
    let set = async |name: &str, value: &str| {
        redis.ask::<()>(&["CONFIG", "SET", name, value]).await.unwrap();
    };
    set("save", "3600 1").await;
    redis.ask::<()>(&["BGSAVE"]).await.unwrap();
    let before = lines_of(&pod);
    let says = Says {
        why: &["MISCONF"],
        doctor: &["MISCONF", "the disk"],
        log: &["Redis refuses writes: MISCONF"],
        status: &["(redis_refuses_writes, status 503)", "MISCONF"],
        ..Says::default()
    };
    says.by(&pod).await;
    is_quiet(&pod, before);
    let health = run_at(&pod.url(""), &["health"], &[], "").await;
    health.failed(3, "(redis_refuses_writes, status 503)");
    set("save", "").await;
    eventually("the log says that it is over", async || {
        let log = pod.log();
        if log.contains("Redis accepts writes again") { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn redis_away_is_named_by_every_tool() {
    let redis = TestRedis::start().await;
    let settings = Settings {
        redis: "timeout_ms = 1000".into(),
        ..Settings::new(redis.url()).destination(ERP, "url = \"http://127.0.0.1:9/\"")
    };
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let before = lines_of(&pod);
    redis.written().await;
    redis.kill();
    let says = Says {
        why: &["Redis does not answer this process"],
        doctor: &["does not answer", "not checked"],
        status: &["not"],
        console: &["not_read", "Redis is not available"],
        log: &["Redis does not answer"],
    };
    says.by(&pod).await;
    is_quiet(&pod, before);
    redis.restart().await;
    eventually("the log says that it is over", async || {
        let log = pod.log();
        if log.contains("Redis answers again") { Ok(()) } else { Err(log) }
    })
    .await;
}
