//! Everything is killed under load: nothing is lost, nothing is twice, each key is in the order of commits.

use reseq_testing::support::{power::PoweredRedis, redis::TestRedis, wait::eventually};
use rustix::process::Signal;

use crate::{
    connector::Connector,
    postgres::TestPostgres,
    reseq::{cut_each, goes_on, kill_each, kills},
    world::{Load, Reseq, has_all},
};

const SOURCE: &str = "destinations = [\"erp\"]";
const SECTION: &str =
    "columns = { key = \"key\", body = \"body\", id = \"id\" }\nconfirm_delay_ms = 1000";

#[tokio::test(flavor = "multi_thread")]
async fn outbox_arrives_in_the_order_of_commits_through_kills() {
    let (redis, mut postgres) = (TestRedis::start().await, TestPostgres::start().await);
    let mut reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connector = reseq.connector(&postgres, SOURCE, SECTION);
    connector.start(&[]);
    connector.is_ready().await;
    postgres.keep_truth();
    let load = Load::start(&postgres.psql(), 4);
    for _ in 0..kills() {
        kill_each(&mut connector, &mut reseq, &redis).await;
        eventually("Reseq takes messages again", async || match redis.is_answering() {
            true => Ok(()),
            false => Err("Redis does not answer".to_owned()),
        })
        .await;
        postgres.kill();
        postgres.restart().await;
    }
    goes_on(&reseq, 100).await;
    load.end().await;
    has_all(&reseq, &postgres).await;
    // The ids were not in the order of commits, or the test would show nothing.
    let committed = postgres.committed();
    assert!(committed.windows(2).any(|pair| pair[0].1 > pair[1].1), "no ids out of order");
    connector.drains().await;
}

/// Waits until the slot was confirmed. From then on, Postgres waits for more before it stops.
async fn has_confirmed(postgres: &TestPostgres) {
    let sql = "SELECT 1 FROM pg_stat_replication WHERE flush_lsn IS NOT NULL";
    eventually("the slot is confirmed", async || match postgres.psql().rows(sql).len() {
        0 => Err("it is not".to_owned()),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_can_be_stopped_while_it_is_read() {
    let (redis, mut postgres) = (TestRedis::start().await, TestPostgres::start().await);
    let mut reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connector = reseq.connector(&postgres, SOURCE, SECTION);
    connector.start(&[]);
    connector.is_ready().await;
    let insert = "INSERT INTO outbox (key, body) VALUES ('a', '1')";
    has_confirmed(&postgres).await;
    postgres.sql(insert);
    postgres.stops().await;
    postgres.restart().await;
    reseq.has("erp", 1).await;
    // The same while a row waits for Reseq.
    has_confirmed(&postgres).await;
    reseq.pod.kill();
    postgres.sql(insert);
    connector.is_held_by("waiting").await;
    postgres.stops().await;
    postgres.restart().await;
    reseq.pod.restart().await;
    reseq.has("erp", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_that_loses_its_tail_gets_it_again() {
    let (mut redis, postgres) =
        (PoweredRedis::start("everysec").await, TestPostgres::start().await);
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    // The slot keeps more than a second of load.
    let section = SECTION.replace("1000", "60000");
    let mut connector = reseq.connector(&postgres, SOURCE, &section);
    connector.start(&[]);
    connector.is_ready().await;
    // The definition stays.
    redis.synced().await;
    postgres.keep_truth();
    let load = Load::start(&postgres.psql(), 4);
    cut_each(&reseq, &mut redis).await;
    load.end().await;
    has_all(&reseq, &postgres).await;
    assert!(connector.metric("reseq_connect_rewinds_total").await > 0.0, "{}", connector.log());
}

/// Two connectors are frozen at any time. Each wakes up when two others have had the slot, so after at least twice the
/// time after which Postgres takes it from a frozen one.
#[tokio::test(flavor = "multi_thread")]
async fn two_frozen_connectors_wake_up_late_and_change_nothing() {
    let (redis, postgres) = (TestRedis::start().await, TestPostgres::start().await);
    // More than twice the time between two reports of a connector.
    postgres.sql("ALTER SYSTEM SET wal_sender_timeout = '5s'");
    postgres.sql("SELECT pg_reload_conf()");
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut all: Vec<Connector> =
        (0..3).map(|_| reseq.connector(&postgres, SOURCE, SECTION)).collect();
    all[0].start(&[]);
    all[0].is_ready().await;
    postgres.keep_truth();
    let load = Load::start(&postgres.psql(), 4);
    let times = |one: &Connector| one.log().matches("another process reads this source").count();
    let running = |one: &Connector| one.log().matches(" running").count();
    for round in 0..kills().max(2) + 2 {
        let (reads, next) = (round % 3, (round + 1) % 3);
        goes_on(&reseq, 100).await;
        if round < 2 {
            all[next].start(&[]);
        } else {
            // It was frozen for two rounds.
            let before = times(&all[next]);
            all[next].signal(Signal::CONT);
            eventually("the late connector stands by", async || match times(&all[next]) {
                after if after > before => Ok(()),
                _ => Err(all[next].log()),
            })
            .await;
        }
        let before = running(&all[next]);
        all[reads].signal(Signal::STOP);
        eventually("the next connector has the slot", async || match running(&all[next]) {
            after if after > before => Ok(()),
            _ => Err(all[next].log()),
        })
        .await;
    }
    // What they still send arrives before the check.
    all.iter().for_each(|one| one.signal(Signal::CONT));
    goes_on(&reseq, 100).await;
    load.end().await;
    has_all(&reseq, &postgres).await;
}
