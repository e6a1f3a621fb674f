//! What the outbox connector does with rows, and with what is missing.

use reqwest::Method;
use reseq_testing::support::{certificates::Authority, redis::TestRedis, wait::eventually};
use serde_json::{Value, json};

use crate::{
    connector::Connector,
    postgres::TestPostgres,
    reseq::{Reseq, transaction_mb},
};

pub const ERP: &str = "destinations = [\"erp\"]";
pub const SECTION: &str =
    "columns = { key = \"key\", body = \"body\", headers = \"headers\" }\nconfirm_delay_ms = 1000";

pub struct World {
    pub reseq: Reseq,
    pub postgres: TestPostgres,
    pub redis: TestRedis,
}

impl World {
    pub async fn start() -> World {
        let (redis, postgres) = (TestRedis::start().await, TestPostgres::start().await);
        let reseq = Reseq::start(redis.url(), &["erp", "crm"]).await;
        World { reseq, postgres, redis }
    }

    /// A connector that is ready.
    pub async fn connected(&self, source: &str, section: &str) -> Connector {
        let mut connector = self.reseq.connector(&self.postgres, source, section);
        connector.start(&[]);
        connector.is_ready().await;
        connector
    }

    pub fn insert(&self, body: &str) {
        let sql = format!("INSERT INTO outbox (key, body) VALUES ('a', '{body}')");
        self.postgres.sql(&sql);
    }

    pub async fn bodies(&self, destination: &str, count: usize) -> Vec<Value> {
        self.reseq.has(destination, count as u64).await;
        let taken = self.reseq.take(destination, count).await;
        taken.into_iter().map(|mut message| message["body"].take()).collect()
    }
}

/// A row with a header that does not travel, which Reseq refuses.
const POISON: &str =
    "INSERT INTO outbox (key, body, headers) VALUES ('a', '2', '{\"connection\": \"close\"}')";

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_halts_until_its_position_is_skipped() {
    let world = World::start().await;
    let connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    world.postgres.sql(POISON);
    world.insert("3");
    connector.is_held_by("halted").await;
    connector.is_held_by("invalid_field").await;
    assert_eq!(world.bodies("erp", 1).await, [json!(1)]);
    // Somebody decides: the mark moves over it.
    let log = connector.log();
    let at = log.split("destination erp at ").nth(1).and_then(|rest| rest.split(": ").next());
    let (name, mark) = world.reseq.mark("erp").await.unwrap();
    let source = json!({"name": name, "position": at.unwrap(), "after": mark, "skip": true});
    let line = json!({"destinations": ["erp"], "source": source});
    let (status, answer) = world.reseq.ask(Method::POST, "/v1/messages", Some(line)).await;
    assert_eq!(status, 202, "{answer}");
    connector.is_ready().await;
    world.reseq.has("erp", 2).await;
    assert_eq!(world.reseq.take("erp", 1).await[0]["body"], json!(3));
    assert_eq!(connector.metric("reseq_connect_refused_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_is_skipped_and_counted_if_wanted() {
    let world = World::start().await;
    let source = format!("{ERP}\non_refused = \"skip\"");
    let connector = world.connected(&source, SECTION).await;
    world.insert("1");
    world.postgres.sql(POISON);
    world.insert("3");
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(3)]);
    assert_eq!(connector.metric("reseq_connect_refused_total").await, 1.0);
    assert!(connector.log().contains("skipped a message"), "{}", connector.log());
}

/// The slot has each row under the names of its time. None of them is skipped, whatever is wanted for refused messages.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_column_halts_and_skips_no_row() {
    let world = World::start().await;
    let source = format!("{ERP}\non_refused = \"skip\"");
    let mut connector = world.connected(&source, SECTION).await;
    world.insert("1");
    world.reseq.has("erp", 1).await;
    connector.kill();
    world.insert("2");
    world.postgres.sql("ALTER TABLE outbox RENAME body TO text");
    let later = SECTION.replace("body = \"body\"", "body = \"text\"");
    let mut early = world.reseq.connector(&world.postgres, &source, &later);
    early.start(&[]);
    early.is_held_by("there was no column \"text\" when it was written").await;
    assert_eq!(early.metric("reseq_connect_refused_total").await, 0.0);
    early.kill();
    connector.start(&[]);
    world.reseq.has("erp", 2).await;
    connector.is_held_by("column body: the table has no such column").await;
    world.postgres.sql("INSERT INTO outbox (key, text) VALUES ('a', '3')");
    connector.is_held_by("there was no column \"body\" when it was written").await;
    connector.kill();
    early.start(&[]);
    early.is_ready().await;
    assert_eq!(world.bodies("erp", 3).await, [json!(1), json!(2), json!(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_for_an_unlisted_destination_halts_and_is_not_skipped() {
    let world = World::start().await;
    let source = format!("{ERP}\non_refused = \"skip\"").replace("\"erp\"", "\"erp\", \"crm\"");
    let section = SECTION.replace("key = \"key\"", "key = \"key\", destination = \"destination\"");
    let connector = world.connected(&source, &section).await;
    world.postgres.sql("INSERT INTO outbox (destination, body) VALUES ('other', '1')");
    connector.is_held_by("destinations does not have \"other\"").await;
    assert_eq!(connector.metric("reseq_connect_refused_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_is_too_long_is_refused_with_its_position() {
    let world = World::start().await;
    let mut connector = world.connected(ERP, SECTION).await;
    let row = |body: &str| format!("INSERT INTO outbox (key, body) SELECT 'a', {body};");
    let long = row("to_jsonb(repeat('x', 65 << 20))");
    world.postgres.sql(&[row("'1'"), long, row("'3'")].concat());
    connector.is_held_by("halted: the message at 00000001-").await;
    connector.is_held_by("-0000000002: it has 681").await;
    world.reseq.has("erp", 1).await;
    connector.drains().await;
    let source = format!("{ERP}\non_refused = \"skip\"");
    let connector = world.connected(&source, SECTION).await;
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(3)]);
    assert_eq!(connector.metric("reseq_connect_refused_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn table_outside_the_publication_halts_at_once() {
    let world = World::start().await;
    let mut connector = world.reseq.connector(&world.postgres, ERP, SECTION);
    world.postgres.sql("ALTER PUBLICATION outbox DROP TABLE outbox");
    connector.start(&[]);
    connector.is_held_by("halted: table public.outbox in publication outbox").await;
    assert_eq!(world.postgres.sql("SELECT count(*) FROM pg_replication_slots"), ["0"]);
    for (change, back) in [
        ("ALTER PUBLICATION outbox DROP TABLE outbox", "ALTER PUBLICATION outbox ADD TABLE outbox"),
        ("ALTER TABLE outbox RENAME TO renamed", "ALTER TABLE renamed RENAME TO outbox"),
        (
            "ALTER TABLE outbox RENAME TO old; CREATE TABLE outbox (LIKE old INCLUDING DEFAULTS) \
             PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF outbox DEFAULT; \
             ALTER PUBLICATION outbox ADD TABLE outbox",
            "ALTER PUBLICATION outbox SET (publish_via_partition_root = true)",
        ),
    ] {
        // The first one is so already.
        if connector.metric("reseq_connect_halted").await == 0.0 {
            world.postgres.sql(change);
        }
        connector.is_held_by("halted: table public.outbox").await;
        world.postgres.sql(back);
        connector.is_ready().await;
    }
    world.insert("1");
    assert_eq!(world.bodies("erp", 1).await, [json!(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_counts_from_the_oldest_mark() {
    let world = World::start().await;
    let section = SECTION.replace("1000", "60000");
    let mut connector = world.connected(ERP, &section).await;
    world.postgres.sql(
        "INSERT INTO outbox (key, body) SELECT 'a', to_jsonb(md5(n::text)) FROM generate_series(1, 10000) n",
    );
    world.reseq.has("erp", 10_000).await;
    connector.drains().await;
    let text = String::from_utf8(connector.asks("status").stdout).unwrap();
    let bytes = text.split("): ").nth(1).and_then(|rest| rest.split(" bytes behind").next());
    assert!(bytes.unwrap().parse::<u64>().unwrap() < 100_000, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_where_they_say_and_deletes_are_ignored() {
    let world = World::start().await;
    let source = "destinations = [\"erp\", \"crm\"]";
    let section = "message_prefix = \"reseq\"\n\
                   columns = { key = \"key\", body = \"body\", destination = \"destination\" }\nconfirm_delay_ms = 1000";
    let connector = world.connected(source, section).await;
    world.postgres.sql(
        "BEGIN; INSERT INTO outbox (destination, body) VALUES ('erp', '1'), ('crm', '2');
         SELECT pg_logical_emit_message(true, 'reseq', '{\"destination\": \"crm\", \"body\": 3}');
         SELECT pg_logical_emit_message(true, 'other', 'x'); COMMIT;
         SELECT pg_logical_emit_message(false, 'reseq', '{\"destination\": \"erp\", \"body\": 4}');
         DELETE FROM outbox; INSERT INTO outbox (destination, body) VALUES ('crm', '{\"n\": 5}')",
    );
    assert_eq!(world.bodies("crm", 3).await, [json!(2), json!(3), json!({"n": 5})]);
    assert_eq!(world.bodies("erp", 2).await, [json!(1), json!(4)]);
    assert_eq!(connector.metric("reseq_connect_ignored_total").await, 2.0);
    // Both marks move on together, and the slot after them.
    let confirmed =
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'reseq'";
    let before = world.postgres.sql(confirmed);
    eventually("the slot moves", async || {
        let (erp, crm) = (world.reseq.mark("erp").await, world.reseq.mark("crm").await);
        let after = world.postgres.sql(confirmed);
        match erp == crm && after != before {
            true => Ok(()),
            false => Err(format!("{erp:?} {crm:?} {after:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_that_may_only_replicate_logs_in_over_tls_with_a_password() {
    let mut world = World::start().await;
    let authority = Authority::new("databases");
    world.postgres.encrypt(&authority);
    let said = world.reseq.connector(&world.postgres, ERP, SECTION).asks("check");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    let _connector = world.connected(ERP, SECTION).await;
    world.insert("1");
    assert_eq!(world.bodies("erp", 1).await, [json!(1)]);
    let over = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)";
    assert_eq!(world.postgres.sql(over), ["t"]);
    // Another authority, and another password.
    let others = Authority::new("others");
    let ca = format!("ca_file = {:?}", others.ca_file());
    let login = world.postgres.login.clone();
    let kept = login.split("\nca_file").next().unwrap().to_owned();
    world.postgres.login = format!("{kept}\n{ca}");
    let said = world.reseq.connector(&world.postgres, ERP, SECTION).asks("check");
    assert!(String::from_utf8_lossy(&said.stdout).contains("certificate"), "{said:?}");
    world.postgres.sql("ALTER ROLE reseq PASSWORD 'other'");
    world.postgres.login = login;
    let said = world.reseq.connector(&world.postgres, ERP, SECTION).asks("check");
    assert!(String::from_utf8_lossy(&said.stdout).contains("28P01"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_what_is_missing_and_nothing_moves() {
    let world = World::start().await;
    world.postgres.sql("DROP PUBLICATION outbox");
    let source = "destinations = [\"erp\", \"nowhere\"]";
    let section = "columns = { body = \"text\", destination = \"destination\" }";
    let mut connector = world.reseq.connector(&world.postgres, source, section);
    let said = connector.asks("check");
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    for line in [
        "ok    orders: destination erp",
        "WRONG orders: destination nowhere",
        "unknown_destination",
        "ok    orders: wal_level",
        "WRONG orders: publication outbox: it does not exist",
        "WRONG orders: column text: the table has no such column",
        "ok    orders: slot reseq",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    connector.start(&[]);
    connector.is_held_by("publication outbox: it does not exist").await;
    world.postgres.sql("CREATE PUBLICATION outbox FOR TABLE outbox");
    connector.is_held_by("column text: the table has no such column").await;
    world.postgres.sql("ALTER TABLE outbox RENAME body TO text");
    connector.is_held_by("destination nowhere").await;
    let slots = world.postgres.sql("SELECT count(*) FROM pg_replication_slots");
    assert_eq!((slots, world.reseq.mark("erp").await), (vec!["0".to_owned()], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_a_missing_right_and_nothing_moves() {
    let (redis, postgres) = (TestRedis::start().await, TestPostgres::start().await);
    let mut reseq = Reseq::start_guarded(redis.url(), &["erp"]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    reseq.token_file = Some(file.clone());
    let mut connector = reseq.connector(&postgres, ERP, SECTION);
    for (scopes, is_enough) in
        [(&["ingest"][..], false), (&["read"], false), (&["ingest", "read"], true)]
    {
        std::fs::write(&file, reseq.token(scopes).await).unwrap();
        let said = connector.asks("check");
        let text = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.status.success(), is_enough, "{scopes:?}: {text}");
        assert_eq!(text.contains("forbidden"), !is_enough, "{scopes:?}: {text}");
        connector.start(&[]);
        match is_enough {
            true => connector.is_ready().await,
            false => connector.is_held_by("forbidden").await,
        }
        connector.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_that_grows_makes_the_process_unready() {
    let world = World::start().await;
    let section = format!("{SECTION}\nslot_bytes_max = 1");
    let mut connector = world.reseq.connector(&world.postgres, ERP, &section);
    connector.start(&[]);
    world.insert("1");
    connector.is_held_by("slot reseq keeps").await;
    world.insert("2");
    eventually("rows still arrive", async || match world.reseq.count("erp").await {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn halted_source_is_still_measured() {
    let world = World::start().await;
    let connector = world.connected(ERP, SECTION).await;
    world.postgres.sql(POISON);
    connector.is_held_by("halted").await;
    let sizes = async || {
        let lag = connector.metric("reseq_connect_lag").await;
        (lag, connector.metric("reseq_connect_slot_bytes").await)
    };
    let before = sizes().await;
    world.postgres.sql("INSERT INTO outbox (body) SELECT '1' FROM generate_series(1, 1000)");
    eventually("both grow", async || match sizes().await {
        now if now.0 > before.0 + 50_000.0 && now.1 > before.1 + 50_000.0 => Ok(()),
        now => Err(format!("{now:?}, before {before:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_transaction_needs_little_memory() {
    let world = World::start().await;
    let connector = world.connected(ERP, SECTION).await;
    let mb = transaction_mb();
    world.postgres.sql(&format!(
        "INSERT INTO outbox (key, body) SELECT 'k' || n % 100, json_build_object('n', n, 'x', repeat('x', {})) \
         FROM generate_series(1, 20000) n",
        mb * 50
    ));
    world.reseq.gets("erp", 20_000).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", connector.id())).unwrap();
    // The most that it had in memory, as the kernel counts.
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    eprintln!("a transaction of {mb} MB needs {kib} KiB");
    assert!(kib < 100 << 10, "{kib} KiB");
}
