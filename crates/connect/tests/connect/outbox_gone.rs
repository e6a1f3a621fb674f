//! What the outbox connector does when its slot, its marks or its server are gone.

use std::time::Duration;

use reqwest::Method;
use reseq_testing::support::{redis::TestRedis, wait::eventually};
use serde_json::{Value, json};

use crate::{
    outbox::{ERP, SECTION, World},
    postgres::TestPostgres,
    reseq::Reseq,
};

#[tokio::test(flavor = "multi_thread")]
async fn connector_killed_while_it_creates_the_slot_asks_what_to_do() {
    let world = World::start().await;
    let psql = world.postgres.psql();
    let open = "BEGIN; INSERT INTO outbox (body) VALUES ('1'); SELECT pg_sleep(1000)";
    let writer = tokio::task::spawn_blocking(move || psql.run(open));
    let has = async |what: &str, sql: &str| {
        eventually(what, async || match world.postgres.sql(sql).as_slice() {
            [] => Err("none".to_owned()),
            rows => Ok(rows[0].clone()),
        })
        .await
    };
    let sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let pid = has("a transaction is open", sleeping).await;
    let mut connector = world.reseq.connector(&world.postgres, ERP, SECTION);
    connector.start(&[]);
    let slot = "SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn IS";
    has("the slot is being created", &format!("{slot} NULL")).await;
    connector.kill();
    connector.start(&[]);
    connector.is_held_by("slot reseq is being created").await;
    world.postgres.sql(&format!("SELECT pg_terminate_backend({pid})"));
    assert!(!writer.await.unwrap().status.success());
    has("the slot is there", &format!("{slot} NOT NULL")).await;
    connector.is_held_by("ended while it created it. Begin with --begin-at oldest").await;
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    connector.is_ready().await;
    world.insert("2");
    assert_eq!(world.bodies("erp", 1).await, [json!(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mark_that_vanished_halts_until_somebody_says_where_to_begin() {
    let world = World::start().await;
    let mut connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    world.reseq.has("erp", 1).await;
    let (name, _) = world.reseq.mark("erp").await.unwrap();
    let path = format!("/v1/destinations/erp/sources?name={}", name.replace('@', "%40"));
    let (status, answer) = world.reseq.ask(Method::DELETE, &path, None).await;
    assert!((200..300).contains(&status), "{status} {answer}");
    // It notices though it has nothing to send.
    connector.is_held_by("--begin-at oldest").await;
    connector.check_says("no destination has a mark of this source");
    world.insert("2");
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    connector.is_ready().await;
    eventually("the last row arrives", async || {
        let count = world.reseq.count("erp").await;
        if count >= 2 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
    let said = connector.asks("status");
    let text = String::from_utf8(said.stdout).unwrap();
    let (name, mark) = world.reseq.mark("erp").await.unwrap();
    assert!(text.contains(&name) && text.contains("erp: 0"), "{text} {mark}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_that_is_gone_halts() {
    let world = World::start().await;
    let mut connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    world.reseq.has("erp", 1).await;
    connector.drains().await;
    world.postgres.drops_slot().await;
    world.insert("2");
    connector.start(&[]);
    connector.is_held_by("slot reseq does not exist any more").await;
    connector.check_says("slot reseq does not exist any more");
    // A slot that begins later does not hide the gap.
    world.postgres.sql("SELECT pg_create_logical_replication_slot('reseq', 'pgoutput')");
    connector.is_held_by("slot reseq has nothing before").await;
    connector.check_says("slot reseq has nothing before");
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    connector.is_ready().await;
    world.insert("3");
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(3)]);
}

/// Postgres decodes the row with the catalog of its time, in which there was no publication.
#[tokio::test(flavor = "multi_thread")]
async fn publication_created_again_behind_a_row_halts_with_the_way_out() {
    let world = World::start().await;
    let mut connector = world.connected(ERP, SECTION).await;
    connector.drains().await;
    world.postgres.sql("DROP PUBLICATION outbox");
    world.insert("1");
    world.postgres.sql("CREATE PUBLICATION outbox FOR TABLE outbox");
    connector.start(&[]);
    connector.is_held_by("it is newer than the rows that are read. Drop the slot").await;
    connector.drains().await;
    world.postgres.drops_slot().await;
    world.insert("2");
    connector.start(&["--begin-at", "oldest"]);
    connector.is_ready().await;
    world.insert("3");
    assert_eq!(world.bodies("erp", 1).await, [json!(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_that_lost_its_log_halts_until_somebody_decides() {
    let world = World::start().await;
    let mut connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    world.reseq.has("erp", 1).await;
    connector.drains().await;
    world.postgres.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
    world.postgres.sql("SELECT pg_reload_conf()");
    world.insert("2");
    eventually("the slot is lost", async || {
        world.insert("2");
        world.postgres.sql("SELECT pg_switch_wal()");
        world.postgres.sql("CHECKPOINT");
        match &world.postgres.sql("SELECT wal_status FROM pg_replication_slots")[0] {
            status if status == "lost" => Ok(()),
            status => Err(status.clone()),
        }
    })
    .await;
    connector.start(&[]);
    connector.is_held_by("halted: slot reseq is lost: Postgres has removed the log").await;
    let said = connector.asks("check");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(!said.status.success() && text.contains("WRONG orders: slot reseq"), "{text}");
    world.postgres.sql("SELECT pg_drop_replication_slot('reseq')");
    connector.is_held_by("slot reseq does not exist any more").await;
    connector.drains().await;
    connector.start(&["--begin-at", "oldest"]);
    connector.is_ready().await;
    world.insert("3");
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connector_down_longer_than_the_window_repeats_nothing() {
    let (redis, postgres) = (TestRedis::start_with_clock().await, TestPostgres::start().await);
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let world = World { reseq, postgres, redis };
    // The slot keeps all, so that Postgres sends it again.
    let mut connector = world.connected(ERP, &SECTION.replace("1000", "60000")).await;
    (1..=20).for_each(|number| world.insert(&number.to_string()));
    world.reseq.has("erp", 20).await;
    connector.kill();
    let first = world.bodies("erp", 20).await;
    (21..=40).for_each(|number| world.insert(&number.to_string()));
    // Redis forgets idempotency keys after a day.
    world.redis.clock().step(Duration::from_secs(3 * 24 * 3600), true);
    connector.start(&[]);
    world.reseq.has("erp", 40).await;
    let rest = world.reseq.take("erp", 20).await;
    let all = first.into_iter().chain(rest.into_iter().map(|one| one["body"].clone()));
    assert_eq!(all.collect::<Vec<_>>(), (1..=40).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_goes_on_and_a_former_primary_halts() {
    let mut world = World::start().await;
    let connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    world.reseq.has("erp", 1).await;
    world.postgres.fail_over().await;
    connector.is_ready().await;
    world.insert("2");
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(2)]);
    assert!(world.reseq.mark("erp").await.unwrap().1.starts_with("00000002-"));
    world.postgres.fall_back().await;
    // It has a row that nobody else has.
    world.insert("3");
    connector.is_held_by("this server is older than what was delivered").await;
    world.reseq.has("erp", 2).await;
}
