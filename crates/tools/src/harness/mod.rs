//! Real Reseq processes over an embedded Redis, and a directory with their files. `reseq demo` and `reseq-bench` use
//! them.
//!
//! [`Harness::open`] starts Redis, [`Harness::start`] starts pods and waits until they are ready, and
//! [`Harness::close`] stops everything. Each pod is described by a [`PodArgs`]. If the program that
//! holds the harness is killed, a watchdog kills the pods and Redis.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use reqwest::{
    Certificate, Client, ClientBuilder,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

pub use interrupt::Interrupt;
pub use process::{PodArgs, Process};

use self::watchdog::Watchdog;
use config::Config;
use redis_client::embedded::EmbeddedRedis;

mod interrupt;
pub mod metrics;
mod process;
mod watchdog;

/// Time limit for a process to stop.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(5);
/// How often to read the senders' shares.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// For each sender: the number of messages delivered to each destination so far.
pub type Deliveries = BTreeMap<String, BTreeMap<String, f64>>;

/// All processes that run outside this one.
pub struct Harness {
    reseq: PathBuf,
    directory: TempDir,
    redis: EmbeddedRedis,
    processes: Vec<Process>,
    watchdog: Option<Watchdog>,
    client: Client,
}

impl Harness {
    /// Starts Redis. `name` becomes a part of the directory's name; `reseq` is the program of the pods.
    /// The caller must call [`close`](Harness::close): dropping this does not stop Redis.
    pub async fn open(name: &str, reseq: PathBuf) -> anyhow::Result<Harness> {
        let client = client_builder().build()?;
        let directory = tempfile::Builder::new().prefix(&format!("reseq-{name}-")).tempdir()?;
        let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
        let watchdog = Some(Watchdog::over([redis.process_id()])?);
        Ok(Harness { reseq, directory, redis, processes: Vec::new(), watchdog, client })
    }

    /// The URL of the Redis that all processes use.
    pub fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// Redis's answer to `INFO all`.
    pub async fn redis_info(&self) -> anyhow::Result<String> {
        self.redis.query(&["INFO", "all"]).await.context("asking Redis for its state")
    }

    /// Changes settings of Redis (`CONFIG SET`).
    pub async fn configure_redis(&self, settings: &[(&str, String)]) -> anyhow::Result<()> {
        let settings = settings.iter().flat_map(|(name, value)| [*name, value.as_str()]);
        let words: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(settings).collect();
        self.redis.query(&words).await.context("changing settings of Redis")
    }

    /// The directory with the files of the processes, which is removed at the end.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes calls to the processes carry this token, and trust this certificate authority (PEM) too.
    pub fn call_with(&mut self, token: Option<&str>, ca: Option<&str>) -> anyhow::Result<()> {
        let mut builder = client_builder();
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"))?;
            builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
        }
        if let Some(ca) = ca {
            builder = builder.add_root_certificate(Certificate::from_pem(ca.as_bytes())?);
        }
        self.client = builder.build()?;
        Ok(())
    }

    /// Writes a configuration file for processes.
    pub fn write(&self, name: &str, config: &Config) -> anyhow::Result<PathBuf> {
        let path = self.directory.path().join(format!("{name}.toml"));
        std::fs::write(&path, toml::to_string(config)?).context("writing the configuration")?;
        Ok(path)
    }

    /// Starts these processes, and waits until all are ready.
    pub async fn start(&mut self, cast: impl IntoIterator<Item = PodArgs>) -> anyhow::Result<()> {
        let cast: Vec<PodArgs> = cast.into_iter().collect();
        let before = self.processes.len();
        for (role, listen) in cast.iter().zip(free_addresses(cast.len())?) {
            let process = Process::start(role, &self.reseq, listen, self.directory.path())?;
            self.processes.push(process);
        }
        self.watch_over().await?;
        for process in &mut self.processes[before..] {
            process.ready(&self.client).await?;
        }
        Ok(())
    }

    /// Makes the watchdog watch exactly the current processes, because the system may reuse the id
    /// of an ended one.
    async fn watch_over(&mut self) -> anyhow::Result<()> {
        let ids = self.processes.iter().map(Process::id).chain([self.redis.process_id()]);
        let watchdog = self.watchdog.replace(Watchdog::over(ids)?);
        if let Some(old) = watchdog {
            old.dismiss().await;
        }
        Ok(())
    }

    /// Waits until every sender owns partitions and all partitions are owned, at most `limit`, so that the measurement
    /// does not begin during a rebalance. True if they are.
    pub async fn wait_until_shared(&self, partitions: f64, limit: Duration) -> bool {
        let since = Instant::now();
        while since.elapsed() < limit {
            let mut owned = Vec::new();
            for sender in self.of_role("sender") {
                owned.extend(metrics::partitions_owned(&self.client, &sender.url).await);
            }
            if owned.iter().all(|&count| count > 0.0) && owned.iter().sum::<f64>() >= partitions {
                return true;
            }
            sleep(LOOK_EVERY).await;
        }
        false
    }

    /// The delivery attempts of each sender, by destination.
    pub async fn deliveries(&self) -> Deliveries {
        let mut all = Deliveries::new();
        for sender in self.of_role("sender") {
            let of_sender = metrics::deliveries(&self.client, &sender.url).await;
            all.insert(sender.name.clone(), of_sender.unwrap_or_default());
        }
        all
    }

    /// The client for queries to the processes.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The processes of a role.
    pub fn of_role(&self, role: &str) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.name.starts_with(role))
    }

    /// Kills a process by name; returns its id.
    pub async fn kill(&mut self, name: &str) -> anyhow::Result<u32> {
        let mut process = self.leave(name)?;
        process.kill().await.with_context(|| format!("killing {name}"))?;
        self.watch_over().await?;
        Ok(process.id())
    }

    /// Stops a process by name, and waits for its end.
    pub async fn end(&mut self, name: &str) -> anyhow::Result<()> {
        let mut process = self.leave(name)?;
        process.ask_to_stop();
        let has_stopped = process.stopped().await;
        self.watch_over().await?;
        ensure!(has_stopped, "{name} did not stop in time and was killed");
        Ok(())
    }

    /// Removes a process from the harness.
    fn leave(&mut self, name: &str) -> anyhow::Result<Process> {
        let at = self.processes.iter().position(|process| process.name == name);
        Ok(self.processes.remove(at.with_context(|| format!("there is no {name}"))?))
    }

    /// The processes that ended unexpectedly since the last call, as text.
    pub fn ended(&mut self) -> Vec<String> {
        let of_process = |process: &mut Process| match process.ended() {
            Ok(status) => Some(format!("{} ended unexpectedly ({})", process.name, status?)),
            Err(error) => Some(format!("{} cannot be watched: {error}", process.name)),
        };
        self.processes.iter_mut().filter_map(of_process).collect()
    }

    /// Stops everything in order. Returns the processes that did not stop properly, as text, and the directory with the
    /// logs, which is removed on drop unless kept.
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

fn client_builder() -> ClientBuilder {
    Client::builder().no_proxy().timeout(Duration::from_secs(2))
}

/// Free loopback addresses. Each is returned again only after all others. Linux uses ports from 32768 on for
/// connections, so another program could take such a port before the process listens.
pub fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    const PORTS: Range<u32> = 10_000..32_768;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Programs that run at the same time start at distant ports.
    let first = std::process::id().wrapping_mul(2_654_435_761);
    let mut addresses = Vec::with_capacity(count);
    for _ in PORTS {
        if addresses.len() == count {
            return Ok(addresses);
        }
        let number = first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port)?));
        if TcpListener::bind(address).is_ok() {
            addresses.push(address);
        }
    }
    bail!("there are not enough free ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port that Linux may give to any connection can be taken before its process listens.
    #[test]
    fn addresses_are_all_different_and_no_ports_of_connections() {
        let given: Vec<SocketAddr> =
            (0..3).flat_map(|_| free_addresses(20).expect("free addresses")).collect();
        let ports: std::collections::BTreeSet<u16> = given.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), 60);
        assert!(ports.iter().all(|port| (10_000..32_768).contains(port)), "{ports:?}");
    }
}
