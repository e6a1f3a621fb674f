//! The Redis of a run, in each topology, and the faults that strike it.
//!
//! When a primary is lost, writes that its replicas have not received are lost too. Unless the durability
//! protects against that, the harness first pauses the writes, and waits until the replicas are in sync.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::{
    level::Level,
    plan::{Kind, Topology},
    support::{
        certificates::Authority,
        cluster::TestCluster,
        preload::Clock,
        redis::{PASSWORD, TestRedis, minimal_rules},
        sentinel::{SERVICE, TestSentinel},
        wait::eventually,
    },
};

/// Longer than any failover. The harness ends the pause as soon as the failover is over.
const PAUSE_MS: &str = "30000";
/// Replicas of the primary that the sentinels monitor.
const REPLICAS: usize = 2;
/// A primary that has not answered for this long counts as dead, in ms. A shorter time would cause
/// unplanned failovers on a slow machine.
const DEAD_AFTER_MS: &str = "2500";
/// Longer than all steps of a clock together, in ms.
const NEVER_DEAD_MS: &str = "1000000000";
/// Slots that one fault moves.
const MOVES: usize = 3;

/// Rights of the pods' user in addition to the rules that each deployment needs: for `replicas`,
/// for `fsynced`, for primaries with sentinels, and for clusters.
const MORE_RULES: [&str; 6] =
    ["+wait", "+config|get", "+role", "+cluster|slots", "+cluster|info", "+asking"];

/// The pods' user, as arguments of the server, so that it survives a restart.
fn user() -> Vec<String> {
    let mut words = vec!["svc".to_owned(), "on".to_owned(), format!(">{PASSWORD}")];
    words.extend(minimal_rules());
    words.extend(MORE_RULES.map(str::to_owned));
    words
}

async fn tell_all(nodes: &[TestRedis], words: &[&str]) {
    for node in nodes {
        node.ask::<()>(words).await.expect("a server takes a setting");
    }
}

pub struct Servers {
    set: Set,
    level: Level,
    scheme: &'static str,
}

enum Set {
    Single(TestRedis),
    Sentinel(TestSentinel),
    Cluster(TestCluster),
}

impl Servers {
    /// Starts the servers, over TLS if there is an authority.
    pub async fn start(topology: Topology, level: Level, tls: Option<&Authority>) -> Servers {
        // With `everysec` Redis holds writes back while the disk is slow to sync, and SIGKILL loses
        // them (docs/explanation/durability.md). With `always` and `no` the operating system gets
        // them at once, and keeps them.
        let fsync = if level == Level::Fsynced { "always" } else { "no" };
        let user = user();
        let mut args = vec!["--appendfsync", fsync, "--user"];
        args.extend(user.iter().map(String::as_str));
        let set = match topology {
            Topology::Single => Set::Single(TestRedis::start_at(None, &args, tls).await),
            Topology::Sentinel => {
                // These servers rewrite their file, which may define a user only once, so the user is in the file.
                let config = format!("appendfsync {fsync}\nuser {}", user.join(" "));
                let servers = TestSentinel::start_at(REPLICAS, &config, tls).await;
                let set = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", DEAD_AFTER_MS];
                tell_all(&servers.sentinels, &set).await;
                Set::Sentinel(servers)
            }
            Topology::Cluster => {
                let servers = TestCluster::start_with_replicas_and(&args, tls).await;
                let set = ["CONFIG", "SET", "cluster-node-timeout", DEAD_AFTER_MS];
                tell_all(&servers.nodes, &set).await;
                Set::Cluster(servers)
            }
        };
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        Servers { set, level, scheme }
    }

    /// Gives all servers clocks that can be moved, and prevents failovers. Otherwise nodes of a
    /// cluster would consider each other dead when a clock steps. Sentinels would replace a primary
    /// that answers BUSY, and writes that it accepts before it learns of that would be lost.
    pub async fn give_clocks(&self) -> Vec<Clock> {
        for _ in 0..2 {
            match &self.set {
                Set::Single(_) => {}
                Set::Sentinel(servers) => {
                    let set =
                        ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", NEVER_DEAD_MS];
                    tell_all(&servers.sentinels, &set).await;
                }
                Set::Cluster(servers) => {
                    let set = ["CONFIG", "SET", "cluster-node-timeout", NEVER_DEAD_MS];
                    tell_all(&servers.nodes, &set).await;
                }
            }
            for node in self.nodes().iter().filter(|node| !node.clock().is_there()) {
                node.give_clock().await;
            }
        }
        self.whole().await;
        self.nodes().iter().map(TestRedis::clock).collect()
    }

    /// The number of replicas of each primary.
    pub fn replicas(topology: Topology) -> usize {
        match topology {
            Topology::Single => 0,
            Topology::Sentinel => REPLICAS,
            Topology::Cluster => 1,
        }
    }

    /// The ports of all servers, and of their sentinels.
    pub fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.nodes().iter().map(TestRedis::port).collect();
        if let Set::Sentinel(servers) = &self.set {
            ports.extend(servers.sentinels.iter().map(TestRedis::port));
        }
        ports
    }

    /// The URL for pods, which reach each port through a link.
    pub fn url_through(&self, link: impl Fn(u16) -> u16) -> String {
        let hosts = |servers: &[TestRedis]| {
            let hosts = servers.iter().map(|one| format!("127.0.0.1:{}", link(one.port())));
            format!("svc:{PASSWORD}@{}", hosts.collect::<Vec<_>>().join(","))
        };
        let scheme = self.scheme;
        match &self.set {
            Set::Single(server) => format!("{scheme}://{}", hosts(std::slice::from_ref(server))),
            Set::Sentinel(servers) => {
                format!("{scheme}+sentinel://{}/{SERVICE}", hosts(&servers.sentinels))
            }
            Set::Cluster(servers) => format!("{scheme}+cluster://{}", hosts(&servers.nodes[..3])),
        }
    }

    /// Changes the rights of the pods' user on all servers.
    pub async fn acl(&self, rules: &[&str]) {
        for node in self.nodes() {
            node.acl(rules).await;
        }
    }

    /// All servers that hold data.
    pub fn nodes(&self) -> &[TestRedis] {
        match &self.set {
            Set::Single(server) => std::slice::from_ref(server),
            Set::Sentinel(servers) => &servers.nodes,
            Set::Cluster(servers) => &servers.nodes,
        }
    }

    /// All servers that accept writes.
    pub async fn primaries(&self) -> Vec<&TestRedis> {
        let mut primaries = Vec::new();
        for node in self.nodes() {
            if node.is_answering() && node.info("role").await == "master" {
                primaries.push(node);
            }
        }
        primaries
    }

    /// The slot of a destination's keys; 0 without slots.
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

    /// The index of the server that accepts the writes of a destination.
    pub async fn primary_of(&self, destination: &str) -> usize {
        match &self.set {
            Set::Single(_) => 0,
            Set::Sentinel(servers) => servers.primary().await,
            Set::Cluster(servers) => servers.primary_of(self.slot_of(destination).await).await,
        }
    }

    pub fn node(&self, index: usize) -> &TestRedis {
        &self.nodes()[index]
    }

    /// Kills the primary of a destination, waits until there is another, and starts the killed
    /// one again. Returns when it died.
    pub async fn kill_primary(&self, destination: &str, lasts: Duration) -> Instant {
        let before = self.primary_of(destination).await;
        self.pause_before(Kind::PrimaryKilled, before).await;
        self.node(before).kill();
        let killed = Instant::now();
        self.another(destination, before).await;
        sleep(lasts).await;
        self.node(before).restart().await;
        self.whole().await;
        killed
    }

    /// Stops the primary instead of killing it. When it continues, it still believes that it is the primary.
    pub async fn freeze_primary(&self, destination: &str, lasts: Duration) -> Instant {
        let before = self.primary_of(destination).await;
        self.pause_before(Kind::PrimaryFrozen, before).await;
        let node = self.node(before);
        node.freeze();
        let frozen = Instant::now();
        self.another(destination, before).await;
        self.has_no_replica(before).await;
        sleep(lasts).await;
        node.thaw();
        self.demoted(before).await;
        self.whole().await;
        frozen
    }

    /// Lets another server take over from the primary of a destination while both live.
    pub async fn fail_over(&self, destination: &str) -> Instant {
        let begun = Instant::now();
        match &self.set {
            Set::Single(_) => {}
            Set::Sentinel(servers) => {
                let before = servers.primary().await;
                // Sentinels do not ask the old primary to pause its writes.
                self.pause_before(Kind::Failover, before).await;
                servers.failover().await;
                self.demoted(before).await;
            }
            Set::Cluster(servers) => {
                let primary = self.primary_of(destination).await;
                servers.failover(primary).await;
            }
        }
        self.whole().await;
        begun
    }

    /// Moves slots to another primary and back, under load. The slot of the destination is the first.
    pub async fn move_slots(&self, destination: &str) -> Instant {
        if let Set::Cluster(servers) = &self.set {
            let slot = self.slot_of(destination).await;
            for slot in (slot..=u16::MAX).take(MOVES).map(|slot| slot % 16_384) {
                let home = servers.primary_of(slot).await;
                let mut to = None;
                for other in [0, 5461, 10_923] {
                    let primary = servers.primary_of(other).await;
                    if primary != home {
                        to = Some(primary);
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
        match &self.set {
            Set::Single(_) => {}
            Set::Sentinel(servers) => drop(servers.other_primary(than).await),
            Set::Cluster(servers) => {
                // The slot of the destination's keys, according to a server that answers.
                let slot = self.slot_of(destination).await;
                servers.other_primary(slot, than).await;
            }
        }
    }

    async fn pause_before(&self, kind: Kind, primary: usize) {
        if !self.level.survives(kind) {
            self.pause(primary).await;
        }
    }

    /// Waits until no answering server is a replica of this one. If it came back while another
    /// server still follows it, these two would be a majority without the new primary.
    async fn has_no_replica(&self, of: usize) {
        let port = self.node(of).port().to_string();
        eventually("the others follow the new primary", async || {
            for node in self.nodes().iter().filter(|node| node.is_answering()) {
                if node.info("role").await == "slave" && node.info("master_port").await == port {
                    return Err(format!("{} does not", node.url()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Pauses the writes of a primary, and waits until its replicas have all its data.
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

    /// Waits until a former primary knows that it is no longer the primary, and ends its pause.
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

    /// Waits until all servers have recovered.
    async fn whole(&self) {
        match &self.set {
            Set::Single(_) => {}
            Set::Sentinel(servers) => servers.wait_until_ok().await,
            Set::Cluster(servers) => {
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
