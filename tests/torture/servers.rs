//! The Redis of a run, in each topology, and what is done to it.
//!
//! A primary that is lost takes with it what its replicas have not yet received. So that the
//! examination can be strict, its writes are paused and its replicas are in sync before it goes.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::{
    plan::Topology,
    support::{
        cluster::TestCluster,
        redis::TestRedis,
        sentinel::{SERVICE, TestSentinel},
        wait::eventually,
    },
};

/// Longer than any failover: the pause is ended when it is over.
const PAUSE_MS: &str = "30000";
/// Replicas of the primary that the sentinels watch.
const REPLICAS: usize = 2;
/// A primary that has not answered for so long is taken for dead, in milliseconds. A shorter time
/// would make failovers that nobody planned, on a busy machine.
const DEAD_AFTER_MS: &str = "2500";
/// Slots that one fault moves.
const MOVES: usize = 3;

async fn tell_all(nodes: &[TestRedis], words: &[&str]) {
    for node in nodes {
        node.ask::<()>(words).await.expect("a server takes a setting");
    }
}

pub enum Servers {
    Single(TestRedis),
    Sentinel(TestSentinel),
    Cluster(TestCluster),
}

impl Servers {
    pub async fn start(topology: Topology) -> Servers {
        match topology {
            // With `everysec` Redis holds writes back while the disk is slow to sync, and SIGKILL
            // loses them (docs/REDIS.md, Durability). Handed to the operating system at once, they
            // are kept.
            Topology::Single => {
                Servers::Single(TestRedis::start_on_tcp(&["--appendfsync", "no"]).await)
            }
            Topology::Sentinel => {
                let servers = TestSentinel::start(REPLICAS).await;
                let set = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", DEAD_AFTER_MS];
                tell_all(&servers.sentinels, &set).await;
                Servers::Sentinel(servers)
            }
            Topology::Cluster => {
                let servers = TestCluster::start_with_replicas().await;
                let set = ["CONFIG", "SET", "cluster-node-timeout", DEAD_AFTER_MS];
                tell_all(&servers.nodes, &set).await;
                Servers::Cluster(servers)
            }
        }
    }

    /// As pods are told, unless they are given a link to [`Servers::address`].
    pub fn url(&self) -> String {
        match self {
            Servers::Single(server) => server.url().to_owned(),
            Servers::Sentinel(servers) => servers.url(),
            Servers::Cluster(servers) => servers.url(),
        }
    }

    /// The one address that a link can lead to, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Servers::Single(server) => Some(SocketAddr::from(([127, 0, 0, 1], server.port()))),
            _ => None,
        }
    }

    fn nodes(&self) -> &[TestRedis] {
        match self {
            Servers::Single(server) => std::slice::from_ref(server),
            Servers::Sentinel(servers) => &servers.nodes,
            Servers::Cluster(servers) => &servers.nodes,
        }
    }

    /// All servers that take writes.
    pub async fn primaries(&self) -> Vec<&TestRedis> {
        let mut primaries = Vec::new();
        for node in self.nodes() {
            if node.is_answering() && node.info("role").await == "master" {
                primaries.push(node);
            }
        }
        primaries
    }

    /// The slot of a destination's keys; none where there are no slots.
    async fn slot_of(&self, destination: &str) -> u16 {
        let pattern = format!("reseq:*:d:{destination}");
        for node in self.nodes().iter().filter(|node| node.is_answering()) {
            let found: Vec<String> = node.ask(&["KEYS", &pattern]).await.unwrap_or_default();
            if let Some(key) = found.first() {
                return node.ask(&["CLUSTER", "KEYSLOT", key]).await.unwrap_or_default();
            }
        }
        0
    }

    /// The index of the server that takes the writes of a destination.
    pub async fn primary_of(&self, destination: &str) -> usize {
        match self {
            Servers::Single(_) => 0,
            Servers::Sentinel(servers) => servers.primary().await,
            Servers::Cluster(servers) => servers.master_of(self.slot_of(destination).await).await,
        }
    }

    pub fn node(&self, index: usize) -> &TestRedis {
        &self.nodes()[index]
    }

    /// Kills the primary of a destination, waits until another is there, and starts it again.
    /// Returns when it died.
    pub async fn kill_primary(&self, destination: &str, lasts: Duration) -> Instant {
        let before = self.primary_of(destination).await;
        self.pause(before).await;
        self.node(before).kill();
        let killed = Instant::now();
        self.another(destination, before).await;
        sleep(lasts).await;
        self.node(before).restart().await;
        self.whole().await;
        killed
    }

    /// The same, but the primary is only stopped, and comes back while it believes that it still is
    /// the primary.
    pub async fn freeze_primary(&self, destination: &str, lasts: Duration) -> Instant {
        let before = self.primary_of(destination).await;
        self.pause(before).await;
        let node = self.node(before);
        node.freeze();
        let frozen = Instant::now();
        self.another(destination, before).await;
        sleep(lasts).await;
        node.thaw();
        self.demoted(before).await;
        self.whole().await;
        frozen
    }

    /// Another server takes over from the primary of a destination while both live.
    pub async fn fail_over(&self, destination: &str) -> Instant {
        let begun = Instant::now();
        match self {
            Servers::Single(_) => {}
            Servers::Sentinel(servers) => {
                let before = servers.primary().await;
                // The sentinels do not ask the old primary to wait.
                self.pause(before).await;
                servers.failover().await;
                self.demoted(before).await;
            }
            Servers::Cluster(servers) => {
                let master = self.primary_of(destination).await;
                servers.failover(master).await;
            }
        }
        self.whole().await;
        begun
    }

    /// Moves slots under load, that of a destination first, to another master and back.
    pub async fn move_slots(&self, destination: &str) -> Instant {
        if let Servers::Cluster(servers) = self {
            let slot = self.slot_of(destination).await;
            for slot in (slot..=u16::MAX).take(MOVES).map(|slot| slot % 16_384) {
                let home = servers.master_of(slot).await;
                let mut to = None;
                for other in [0, 5461, 10_923] {
                    let master = servers.master_of(other).await;
                    if master != home {
                        to = Some(master);
                    }
                }
                if let Some(to) = to {
                    servers.move_slot(slot, to).await;
                }
            }
        }
        self.whole().await;
        Instant::now()
    }

    async fn another(&self, destination: &str, than: usize) {
        match self {
            Servers::Single(_) => {}
            Servers::Sentinel(servers) => drop(servers.other_primary(than).await),
            Servers::Cluster(servers) => {
                // A slot of the destination, as seen by those that answer.
                let slot = self.slot_of(destination).await;
                servers.other_master(slot, than).await;
            }
        }
    }

    /// Pauses the writes of a primary, and waits until its replicas have all that it has.
    async fn pause(&self, primary: usize) {
        let node = self.node(primary);
        let paused = node.ask::<()>(&["CLIENT", "PAUSE", PAUSE_MS, "WRITE"]).await;
        paused.expect("a primary that answers can be paused");
        let port = node.port().to_string();
        eventually("the replicas have what the primary has", async || {
            let sent = node.info("master_repl_offset").await.parse::<u64>().unwrap_or(u64::MAX);
            let mut replicas = 0;
            for replica in self.nodes().iter().filter(|node| node.is_answering()) {
                if replica.info("role").await == "slave"
                    && replica.info("master_port").await == port
                {
                    let has = replica.info("slave_repl_offset").await.parse::<u64>();
                    if has.unwrap_or_default() < sent {
                        return Err(format!("{} lags", replica.url()));
                    }
                    replicas += 1;
                }
            }
            if replicas > 0 { Ok(()) } else { Err("there is no replica".to_owned()) }
        })
        .await;
    }

    /// Waits until a server that was the primary knows that it is not, and ends its pause.
    async fn demoted(&self, index: usize) {
        let node = self.node(index);
        eventually("the old primary is a replica", async || match node.info("role").await {
            role if role == "slave" => Ok(()),
            role => Err(format!("it is a {role:?}")),
        })
        .await;
        let resumed = node.ask::<()>(&["CLIENT", "UNPAUSE"]).await;
        resumed.expect("a server that answers takes commands again");
    }

    /// Waits until everything is as it was.
    async fn whole(&self) {
        match self {
            Servers::Single(_) => {}
            Servers::Sentinel(servers) => servers.wait_until_ok().await,
            Servers::Cluster(servers) => {
                servers.wait_until_ok().await;
                eventually("every replica is in sync", async || {
                    for node in &servers.nodes {
                        if node.info("role").await == "slave"
                            && node.info("master_link_status").await != "up"
                        {
                            return Err(format!("{} is not", node.url()));
                        }
                    }
                    Ok(())
                })
                .await;
            }
        }
    }
}
