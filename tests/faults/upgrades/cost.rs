//! Measures the cost of the schema check in every script.

use crate::support::{redis::TestRedis, source::root};

const CALLS: usize = 20_000;

/// `cargo test --features next-schema --test faults upgrades -- --ignored --nocapture cost`
#[tokio::test]
#[ignore = "a measurement"]
async fn the_cost_of_looking_at_the_schema() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    let include = std::fs::read_to_string(root().join("lua/include/schema.lua")).unwrap();
    let include = format!("#!lua\nlocal SCHEMA_KNOWN = 3\n{include}\n");
    let bare = redis::Script::new(&format!("{include}return 1"));
    let with_look = redis::Script::new(&format!("{include}check_schema(KEYS[1])\nreturn 1"));
    let mut command = redis::cmd("HSET");
    command.arg("reseq:{p00}:epoch").arg(&["server", "x", "epoch", "1", "schema", "3"]);
    command.exec_async(&mut connection).await.unwrap();
    for (what, script) in [("without", &bare), ("with", &with_look), ("without", &bare)] {
        redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut connection).await.unwrap();
        for _ in 0..CALLS {
            let mut call = script.prepare_invoke();
            call.key("reseq:{p00}:epoch");
            let _: u64 = call.invoke_async(&mut connection).await.unwrap();
        }
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
        let line = stats.lines().find(|line| line.contains("cmdstat_evalsha")).unwrap();
        println!("{what:8} the look at the schema: {line}");
    }
}
