//! A benchmark of the console: what it asks of Redis while it is open on many destinations, in one browser
//! and in ten.
//!
//! `make bench-console`, or `cargo run --release --example console_cost -- 1000` for fewer destinations.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Context;
use config::Config;
use futures::{StreamExt, TryStreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis_client::embedded::EmbeddedRedis;
use reseq::{Reseq, Role};
use tokio::task::JoinSet;

/// Concurrent requests.
const AT_ONCE: usize = 32;
/// How long each number of browsers is measured.
const MEASURED: Duration = Duration::from_secs(20);
/// The pages that follow what happens. A browser shows one of them at a time.
const VIEWS: [&str; 4] =
    ["view=overview", "view=destinations", "view=lane&destination=d-0", "view=pods"];
/// How many browsers show a page.
const BROWSERS: [usize; 3] = [0, 1, 10];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let count: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().context("the argument is a number of destinations")?,
        None => 10_000,
    };
    let directory = tempfile::tempdir()?;
    let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
    let mut server = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    let mut config = Config::default();
    config.http.listen = "127.0.0.1:0".parse()?;
    config.redis.url = redis.url();

    let all = [Role::Ingest, Role::Processor, Role::Sender];
    let pod = Reseq::new(config).roles(all).start().await?;
    let base = format!("http://{}", pod.http);
    let client = reqwest::Client::new();
    let fill = async |number: usize| {
        let destination = format!("{base}/v1/destinations/d-{number}");
        // A worker that does not come: the message waits. Without a receiver, no name has to be resolved.
        let definition = r#"{"delivery": {"kind": "none"}, "transform": {"kind": "worker"}}"#;
        client.put(&destination).body(definition).send().await?.error_for_status()?;
        let message = client.post(format!("{destination}/messages")).body("waits");
        message.send().await?.error_for_status()?;
        anyhow::Ok(())
    };
    let filled = stream::iter((0..count).map(fill));
    filled.buffer_unordered(AT_ONCE).try_collect::<()>().await?;

    println!(
        "{count} destinations, a message waits in each; per second, without what an idle pod asks"
    );
    println!("\n| page | browsers | commands | calls of scripts | Redis, ms | frames a browser |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let mut idle = Usage::default();
    for view in VIEWS {
        let page = view.split('&').next().unwrap_or(view).trim_start_matches("view=");
        for browsers in BROWSERS {
            if browsers == 0 && idle.seconds > 0.0 {
                continue;
            }
            let used = watched(&mut server, &client, &base, view, browsers).await?;
            if browsers == 0 {
                println!("| none | 0 | {} |", used.row(&Usage::default(), 0));
                idle = used;
            } else {
                println!("| {page} | {browsers} | {} |", used.row(&idle, browsers));
            }
        }
    }
    pod.stop().await?;
    redis.stop().await?;
    Ok(())
}

/// What was asked of Redis in some seconds.
#[derive(Default)]
struct Usage {
    seconds: f64,
    commands: f64,
    scripts: f64,
    milliseconds: f64,
    frames: u64,
}

impl Usage {
    fn row(&self, idle: &Usage, browsers: usize) -> String {
        let per_second = |of: fn(&Usage) -> f64| {
            let idle = if idle.seconds > 0.0 { of(idle) / idle.seconds } else { 0.0 };
            (of(self) / self.seconds - idle).max(0.0)
        };
        let frames = self.frames as f64 / self.seconds / browsers.max(1) as f64;
        format!(
            "{:.0} | {:.1} | {:.2} | {frames:.2}",
            per_second(|used| used.commands),
            per_second(|used| used.scripts),
            per_second(|used| used.milliseconds),
        )
    }
}

/// Opens a page in some browsers, and measures while they follow it.
async fn watched(
    server: &mut MultiplexedConnection,
    client: &reqwest::Client,
    base: &str,
    view: &str,
    browsers: usize,
) -> anyhow::Result<Usage> {
    let mut watching = JoinSet::new();
    let until = Instant::now() + MEASURED + Duration::from_secs(2);
    for _ in 0..browsers {
        let url = format!("{base}/console/events?{view}");
        let mut stream = client.get(url).send().await?.error_for_status()?;
        watching.spawn(async move {
            let mut frames = 0;
            let follow = async {
                while let Some(chunk) = stream.chunk().await? {
                    frames += chunk.windows(2).filter(|two| two == b"\n\n").count() as u64;
                }
                anyhow::Ok(())
            };
            match tokio::time::timeout_at(until.into(), follow).await {
                Err(_) => Ok(frames),
                Ok(ended) => ended.and(Err(anyhow::anyhow!("the stream ended early"))),
            }
        });
    }
    // The first frame is the dearest; what counts is a page that stays open.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, begun) = (statistics(server).await?, Instant::now());
    tokio::time::sleep(MEASURED - Duration::from_secs(1)).await;
    let (after, seconds) = (statistics(server).await?, begun.elapsed().as_secs_f64());
    let mut used = Usage { seconds, ..Usage::default() };
    for (command, (calls, microseconds)) in after {
        let (calls_before, before) = before.get(&command).copied().unwrap_or_default();
        let is_script = command == "evalsha";
        used.commands += calls - calls_before;
        if is_script {
            used.scripts += calls - calls_before;
        }
        // The time of a script includes that of its commands, which are counted by themselves, too.
        used.milliseconds += (microseconds - before) / 1000.0;
    }
    while let Some(frames) = watching.join_next().await {
        used.frames += frames??;
    }
    used.frames = (used.frames as f64 * seconds / (MEASURED.as_secs_f64() + 2.0)) as u64;
    Ok(used)
}

/// Calls and microseconds of each command, from `INFO commandstats`.
async fn statistics(
    server: &mut MultiplexedConnection,
) -> anyhow::Result<BTreeMap<String, (f64, f64)>> {
    let text: String = redis::cmd("INFO").arg("commandstats").query_async(server).await?;
    let field = |fields: &str, name: &str| {
        let found = fields.split(',').find_map(|field| field.strip_prefix(name));
        found.and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    let rows = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    Ok(rows
        .map(|(command, fields)| {
            (command.to_owned(), (field(fields, "calls="), field(fields, "usec=")))
        })
        .collect())
}
