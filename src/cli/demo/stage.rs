//! The stage: the embedded Redis, the processes, and the directory that holds their files.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use reqwest::Client;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    metrics,
    process::Process,
    receivers::Receivers,
    setup::{self, SENDER_LEASE_MS, free_addresses},
    transformer::Transformer,
    watchdog::Watchdog,
};
use crate::store::embedded::EmbeddedRedis;

/// The senders share the partitions within this time, or the demo begins without.
const SHARED_MAX: Duration = Duration::from_millis(3 * SENDER_LEASE_MS);
/// How often the senders are asked for their shares.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Everything that runs outside this process.
pub struct Stage {
    directory: TempDir,
    redis: EmbeddedRedis,
    tcp: SocketAddr,
    processes: Vec<Process>,
    watchdog: Option<Watchdog>,
    client: Client,
}

/// The roles of the processes; the numbers count each role from 1.
const CAST: [(&str, usize); 5] =
    [("ingest", 1), ("processor", 1), ("processor", 2), ("sender", 1), ("sender", 2)];

impl Stage {
    /// A stage with nothing on it but Redis. From here on [`close`](Stage::close) must be called:
    /// Redis does not end by being dropped.
    pub async fn open() -> anyhow::Result<Stage> {
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(2)).build()?;
        let directory = tempfile::Builder::new().prefix("reseq-demo-").tempdir()?;
        let [tcp] = free_addresses()?;
        let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
        Ok(Stage { directory, redis, tcp, processes: Vec::new(), watchdog: None, client })
    }

    /// Starts the processes and waits until all are ready.
    pub async fn fill(
        &mut self,
        transformer: &Transformer,
        receivers: &Receivers,
    ) -> anyhow::Result<()> {
        let path = self.directory.path().join("reseq.toml");
        let config = setup::config(self.redis.url(), self.tcp, transformer, receivers)?;
        std::fs::write(&path, toml::to_string(&config)?).context("writing the configuration")?;
        let addresses = free_addresses::<{ CAST.len() }>()?;
        for ((role, number), listen) in CAST.into_iter().zip(addresses) {
            let process = Process::start(role, number, listen, &path, self.directory.path())?;
            self.processes.push(process);
        }
        let ids = self.processes.iter().map(Process::id);
        self.watchdog = Some(Watchdog::over(ids.chain([self.redis.process_id()]))?);
        for process in &mut self.processes {
            process.ready(&self.client).await?;
        }
        self.wait_until_shared(config.redis.partitions.into()).await;
        Ok(())
    }

    /// Waits until both senders own partitions and together all, so that the demo does not begin
    /// in the middle of their sharing out.
    async fn wait_until_shared(&self, partitions: f64) {
        let since = Instant::now();
        while since.elapsed() < SHARED_MAX {
            let mut owned = Vec::new();
            for sender in self.of_role("sender") {
                owned.extend(metrics::partitions_owned(&self.client, &sender.url).await);
            }
            if owned.iter().all(|&count| count > 0.0) && owned.iter().sum::<f64>() >= partitions {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Where the ingest process listens for HTTP: `http://…`.
    pub fn ingest_url(&self) -> String {
        self.of_role("ingest").map(|process| process.url.clone()).next().unwrap_or_default()
    }

    /// Where it listens for TCP.
    pub fn ingest_tcp(&self) -> SocketAddr {
        self.tcp
    }

    /// What the processes are asked with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The processes of a role.
    pub fn of_role(&self, role: &str) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.name.starts_with(role))
    }

    /// Kills a process by its name; returns its id.
    pub async fn kill(&mut self, name: &str) -> anyhow::Result<u32> {
        let process = self.processes.iter_mut().find(|process| process.name == name);
        let process = process.with_context(|| format!("there is no {name}"))?;
        process.kill().await.with_context(|| format!("killing {name}"))?;
        Ok(process.id())
    }

    /// The processes that ended by themselves since this was last asked, in words.
    pub fn ended(&mut self) -> Vec<String> {
        let of_process = |process: &mut Process| match process.ended() {
            Ok(status) => Some(format!("{} ended by itself ({})", process.name, status?)),
            Err(error) => Some(format!("{} cannot be watched: {error}", process.name)),
        };
        self.processes.iter_mut().filter_map(of_process).collect()
    }

    /// Stops everything in order. Returns what did not stop as it should, in words, and the
    /// directory with the logs, which is removed with the value unless it is kept.
    pub async fn close(mut self) -> (Vec<String>, TempDir) {
        let mut problems = Vec::new();
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss().await;
        }
        self.processes.iter().for_each(Process::ask_to_stop);
        for process in &mut self.processes {
            if !process.stopped().await {
                problems.push(format!("{} did not stop in time and was killed", process.name));
            }
        }
        if let Err(error) = self.redis.stop().await {
            problems.push(error.to_string());
        }
        (problems, self.directory)
    }
}
