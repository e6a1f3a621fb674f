//! Redis with Sentinel: one primary, its replicas, and three sentinels.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{certificates::Authority, redis::TestRedis, wait::eventually};

/// The name under which the sentinels know the primary.
pub const SERVICE: &str = "main";
/// After this many ms without an answer, a primary counts as dead. Long enough that a busy
/// machine causes no failover, which would lose writes that the replicas lack.
const DOWN_AFTER_MS: u32 = 1500;
/// The number of sentinels.
const SENTINELS: usize = 3;
/// Repeat a failover request after this time: the sentinel has given up.
const FAILOVER_MAX: Duration = Duration::from_secs(10);
const QUORUM: usize = 2;

/// A primary, its replicas and three sentinels on free loopback ports.
pub struct TestSentinel {
    /// The data servers; the first is the initial primary.
    pub nodes: Vec<TestRedis>,
    /// The sentinels.
    pub sentinels: Vec<TestRedis>,
}

impl TestSentinel {
    /// Starts the servers, and waits until each sentinel knows all others and all replicas, and
    /// the replicas are in sync.
    pub async fn start(replicas: usize) -> TestSentinel {
        TestSentinel::start_with(replicas, "").await
    }

    /// Like `start`, with additional lines in the configuration file of each data server.
    pub async fn start_with(replicas: usize, config: &str) -> TestSentinel {
        TestSentinel::start_at(replicas, config, None).await
    }

    /// Like `start_with`, over TLS if there is an authority.
    pub async fn start_at(replicas: usize, config: &str, tls: Option<&Authority>) -> TestSentinel {
        let common = format!("repl-diskless-sync-delay 0\nrepl-timeout 10\n{config}\n");
        let mut nodes = vec![TestRedis::start_at(Some(&common), &[], tls).await];
        let port = nodes[0].port();
        for _ in 0..replicas {
            let file = format!("{common}replicaof 127.0.0.1 {port}\n");
            nodes.push(TestRedis::start_at(Some(&file), &[], tls).await);
        }
        let file = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {port} {QUORUM}\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {SERVICE} 6000\nsentinel parallel-syncs {SERVICE} 2\n"
        );
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(TestRedis::start_at(Some(&file), &["--sentinel"], tls).await);
        }
        let all = TestSentinel { nodes, sentinels };
        all.wait_until_ok().await;
        all
    }

    /// The URL for Reseq.
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port()));
        let is_tls = self.nodes[0].url().starts_with("rediss");
        let scheme = if is_tls { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{SERVICE}", hosts.collect::<Vec<_>>().join(","))
    }

    /// The index of the primary: the sentinels name it, and it reports this role itself.
    pub async fn primary(&self) -> usize {
        eventually("there is a primary", async || self.primary_now().await).await
    }

    async fn primary_now(&self) -> Result<usize, String> {
        let mut named = Vec::new();
        for sentinel in self.sentinels.iter().filter(|one| one.is_answering()) {
            let found = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).await;
            let (_, port): (String, u16) = found.map_err(|error| error.to_string())?;
            named.push(port);
        }
        named.dedup();
        let &[port] = &named[..] else { return Err(format!("the sentinels name {named:?}")) };
        let index = self.nodes.iter().position(|node| node.port() == port);
        let index = index.expect("a primary is one of the nodes");
        let node = &self.nodes[index];
        if !node.is_answering() {
            return Err(format!("the primary is still {}", node.url()));
        }
        match node.info("role").await.as_str() {
            "master" => Ok(index),
            role => Err(format!("{} is a {role:?}", node.url())),
        }
    }

    /// Waits until a server other than `than` is the primary, and returns it.
    pub async fn other_primary(&self, than: usize) -> usize {
        eventually("another primary", async || match self.primary_now().await? {
            same if same == than => Err(format!("{same} is still the primary")),
            other => Ok(other),
        })
        .await
    }

    /// Waits until every other answering node is a replica of the primary and in sync.
    pub async fn in_sync(&self) {
        eventually("the replicas are in sync", async || {
            let primary = self.primary_now().await?;
            let sent = self.nodes[primary].info("master_repl_offset").await;
            for (index, node) in self.nodes.iter().enumerate() {
                if index == primary || !node.is_answering() {
                    continue;
                }
                let link = node.info("master_link_status").await;
                let port = node.info("master_port").await;
                let offset = node.info("slave_repl_offset").await;
                if link != "up" || port != self.nodes[primary].port().to_string() || offset < sent {
                    return Err(format!("{}: {link} of {port}, {offset} of {sent}", node.url()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Makes the sentinels promote a replica. Waits for it and returns it.
    pub async fn failover(&self) -> usize {
        let before = self.primary().await;
        let mut asked: Option<Instant> = None;
        eventually("a failover", async || {
            let seen = match self.primary_now().await {
                Ok(other) if other != before => return Ok(other),
                seen => format!("{seen:?}"),
            };
            // The sentinel refuses this during another failover, or if no replica is good enough.
            // It gives a failover up if the replica does not become primary in time.
            if asked.is_none_or(|last| last.elapsed() > FAILOVER_MAX) {
                let sentinel = self.answering_sentinel();
                match sentinel.ask::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await {
                    Ok(()) => asked = Some(Instant::now()),
                    Err(error) => return Err(format!("{error}; {seen}\n{}", sentinel.log())),
                }
            }
            Err(format!("{seen}\n{}", self.answering_sentinel().log()))
        })
        .await
    }

    fn answering_sentinel(&self) -> &TestRedis {
        self.sentinels.iter().find(|one| one.is_answering()).expect("a sentinel answers")
    }

    /// Waits until each sentinel knows all others and all answering replicas, and these are in
    /// sync.
    pub async fn wait_until_ok(&self) {
        let replicas = self.nodes.iter().filter(|node| node.is_answering()).count() - 1;
        for sentinel in self.sentinels.iter().filter(|one| one.is_answering()) {
            eventually("a sentinel knows all", async || {
                let said: Vec<String> = sentinel
                    .ask(&["SENTINEL", "MASTER", SERVICE])
                    .await
                    .map_err(|error| error.to_string())?;
                let number = |name: &str| {
                    let at = said.iter().position(|word| word == name)?;
                    said.get(at + 1)?.parse::<usize>().ok()
                };
                let known = (number("num-slaves"), number("num-other-sentinels"));
                match known {
                    (Some(slaves), Some(others))
                        if slaves >= replicas && others == SENTINELS - 1 =>
                    {
                        Ok(())
                    }
                    known => Err(format!("{known:?}")),
                }
            })
            .await;
        }
        self.in_sync().await;
        for sentinel in self.sentinels.iter().filter(|one| one.is_answering()) {
            // A sentinel that knows a returned primary only as primary would demote it right after
            // another sentinel has promoted it. Sentinels check every 10 seconds.
            eventually("a sentinel has seen all replicas as such", async || {
                let said = sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]).await;
                let said: Vec<HashMap<String, String>> = said.map_err(|error| error.to_string())?;
                let is_seen = |one: &&HashMap<String, String>| {
                    one["role-reported"] == "slave" && one["master-link-status"] == "ok"
                };
                match said.iter().filter(is_seen).count() {
                    seen if seen >= replicas => Ok(()),
                    seen => Err(format!("{seen} of {replicas}")),
                }
            })
            .await;
        }
    }
}
