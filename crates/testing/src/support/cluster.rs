//! A Redis Cluster of three primaries or more, with or without replicas.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{certificates::Authority, ports::free_port, redis::TestRedis, wait::eventually};

/// The primaries of most clusters.
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// Repeat a failover request after this time: Redis itself gives up after 5 s.
const FAILOVER_MAX: Duration = Duration::from_secs(6);
/// Keys per MIGRATE call. A slot may have very many: each remembered idempotency key is one.
const MOVED_AT_ONCE: &str = "500";

/// A Redis Cluster on free loopback ports.
pub struct TestCluster {
    /// The primaries, then one replica of each, in the same order.
    pub nodes: Vec<TestRedis>,
    /// The initial slots of each primary.
    slots: Vec<Range<u16>>,
}

/// A slot that is being migrated.
pub struct SlotMove<'a> {
    cluster: &'a TestCluster,
    slot: String,
    from: usize,
    to: usize,
}

impl TestCluster {
    /// Starts three primaries with a third of the slots each, and waits until all nodes agree.
    pub async fn start() -> TestCluster {
        TestCluster::start_of(PRIMARIES).await
    }

    /// Like `start`, with this many primaries, which have equal parts of the slots.
    pub async fn start_of(primaries: usize) -> TestCluster {
        TestCluster::start_with(primaries, false, 2000, &[], None).await
    }

    /// Like `start`, over TLS.
    pub async fn start_over_tls(authority: &Authority) -> TestCluster {
        TestCluster::start_with(PRIMARIES, false, 2000, &[], Some(authority)).await
    }

    /// Like `start`, with a replica of each primary, which takes over when its primary has not
    /// answered for about a second.
    pub async fn start_with_replicas() -> TestCluster {
        TestCluster::start_with_replicas_and(&[], None).await
    }

    /// Like `start_with_replicas`, with extra arguments for each node, over TLS if there is an authority.
    pub async fn start_with_replicas_and(
        extra_args: &[&str],
        tls: Option<&Authority>,
    ) -> TestCluster {
        TestCluster::start_with(PRIMARIES, true, 1000, extra_args, tls).await
    }

    async fn start_with(
        primaries: usize,
        replicas: bool,
        node_timeout_ms: u32,
        extra_args: &[&str],
        tls: Option<&Authority>,
    ) -> TestCluster {
        let mut nodes = Vec::new();
        let mut bus_ports = Vec::new();
        let count = if replicas { 2 * primaries } else { primaries };
        for _ in 0..count {
            // The default bus port is port + 10000, which is too high for a high port.
            let (node, bus_port) = start_node(node_timeout_ms, extra_args, tls).await;
            nodes.push(node);
            bus_ports.push(bus_port);
        }
        let begin = |primary: usize| (primary * SLOTS / primaries) as u16;
        let slots = (0..primaries).map(|primary| begin(primary)..begin(primary + 1)).collect();
        let cluster = TestCluster { nodes, slots };
        cluster.join(&bus_ports).await;
        cluster.wait_until_ok().await;
        cluster
    }

    /// The URLs of the nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url().to_owned()).collect()
    }

    /// The URL for Reseq, which names some of the nodes.
    pub fn url(&self) -> String {
        let hosts = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        let is_tls = self.nodes[0].url().starts_with("rediss");
        let scheme = if is_tls { "rediss" } else { "redis" };
        format!("{scheme}+cluster://{}", hosts.take(self.slots.len()).collect::<Vec<_>>().join(","))
    }

    /// The initial primary of a slot.
    pub fn node_for_slot(&self, slot: u16) -> &TestRedis {
        let index = self.slots.iter().position(|slots| slots.contains(&slot));
        &self.nodes[index.expect("a slot is below 16384")]
    }

    /// The index of the slot's current primary. Waits until the answering nodes agree.
    pub async fn primary_of(&self, slot: u16) -> usize {
        eventually("the nodes agree on a primary", async || self.primary_now(slot).await).await
    }

    async fn primary_now(&self, slot: u16) -> Result<usize, String> {
        let mut named = Vec::new();
        for node in self.nodes.iter().filter(|node| node.is_answering()) {
            let lines: String =
                node.ask(&["CLUSTER", "NODES"]).await.map_err(|error| error.to_string())?;
            named.push(lines.lines().find_map(|line| port_of_owner(line, slot)));
        }
        named.dedup();
        match named[..] {
            [Some(port)] => {
                let index = self.nodes.iter().position(|node| node.port() == port);
                Ok(index.expect("a primary is one of the nodes"))
            }
            _ => Err(format!("they name {named:?}")),
        }
    }

    /// Waits until a node other than `than` is the primary of a slot, and returns it.
    pub async fn other_primary(&self, slot: u16, than: usize) -> usize {
        eventually("another primary", async || match self.primary_now(slot).await? {
            same if same == than => Err(format!("{same} is still the primary")),
            other if !self.nodes[other].is_answering() => Err(format!("{other} does not answer")),
            other => Ok(other),
        })
        .await
    }

    /// The index of a replica that answers, given the index of its primary.
    pub async fn replica_of(&self, primary: usize) -> usize {
        eventually("a replica in sync", async || {
            let port = self.nodes[primary].port().to_string();
            for (index, node) in self.nodes.iter().enumerate() {
                if index != primary
                    && node.is_answering()
                    && node.info("role").await == "slave"
                    && node.info("master_port").await == port
                    && node.info("master_link_status").await == "up"
                {
                    return Ok(index);
                }
            }
            Err("none".to_owned())
        })
        .await
    }

    /// Makes the replica of a primary take over while both are alive; returns it.
    pub async fn failover(&self, primary: usize) -> usize {
        let replica = self.replica_of(primary).await;
        let mut asked: Option<Instant> = None;
        eventually("the replica has taken over", async || {
            match self.nodes[replica].info("role").await.as_str() {
                "master" => return Ok(()),
                // Redis gives up a failover after a while, silently.
                _ if asked.is_none_or(|asked| asked.elapsed() > FAILOVER_MAX) => {
                    asked = Some(Instant::now());
                    let said = self.nodes[replica].ask::<()>(&["CLUSTER", "FAILOVER"]).await;
                    said.map_err(|error| error.to_string())?;
                }
                _ => {}
            }
            Err("it is not a primary".to_owned())
        })
        .await;
        replica
    }

    /// Waits until every answering node sees all slots served, and knows all nodes.
    pub async fn wait_until_ok(&self) {
        let count = self.nodes.len();
        let known = format!("cluster_known_nodes:{count}");
        for node in self.nodes.iter().filter(|node| node.is_answering()) {
            eventually("the cluster is ok", async || {
                let info: String =
                    node.ask(&["CLUSTER", "INFO"]).await.map_err(|error| error.to_string())?;
                let wanted = ["cluster_state:ok", "cluster_slots_ok:16384", &known];
                match wanted.iter().all(|line| info.lines().any(|found| found == *line)) {
                    true => Ok(()),
                    false => Err(info),
                }
            })
            .await;
        }
    }

    /// Begins to migrate a slot. From now on the slot is on two nodes.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let from = self.primary_of(slot).await;
        assert_ne!(from, to, "the slot is there already");
        let slot = slot.to_string();
        let (from_id, to_id) = (self.id(from).await, self.id(to).await);
        let set = ["CLUSTER", "SETSLOT", &slot];
        let importing = [&set[..], &["IMPORTING", &from_id]].concat();
        self.nodes[to].ask::<()>(&importing).await.unwrap();
        let migrating = [&set[..], &["MIGRATING", &to_id]].concat();
        self.nodes[from].ask::<()>(&migrating).await.unwrap();
        SlotMove { cluster: self, slot, from, to }
    }

    /// Migrates a slot with all its keys.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to).await;
        while moving.move_keys().await > 0 {}
        moving.end().await;
    }

    async fn id(&self, node: usize) -> String {
        self.nodes[node].ask(&["CLUSTER", "MYID"]).await.unwrap()
    }

    async fn join(&self, bus_ports: &[u16]) {
        let primaries = self.slots.len();
        for (index, node) in self.nodes.iter().enumerate().take(primaries) {
            // Nodes with equal epochs would have to resolve the conflict. So set them before the
            // nodes know each other.
            let epoch = (index + 1).to_string();
            node.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await.unwrap();
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let mut connection = node.connection().await;
            let mut run = async |args: &[String]| {
                let done = redis::cmd("CLUSTER").arg(args).exec_async(&mut connection).await;
                done.unwrap_or_else(|error| panic!("CLUSTER {args:?}: {error}"));
            };
            if index < primaries {
                let (first, last) = (self.slots[index].start, self.slots[index].end - 1);
                run(&["ADDSLOTSRANGE".into(), first.to_string(), last.to_string()]).await;
            }
            for (other, bus_port) in self.nodes.iter().zip(bus_ports).skip(index + 1) {
                let port = other.port().to_string();
                let meet = ["MEET".into(), "127.0.0.1".into(), port, bus_port.to_string()];
                run(&meet).await;
            }
        }
        for index in primaries..self.nodes.len() {
            let primary = self.id(index - primaries).await;
            // The node must have met its primary first.
            eventually("a replica follows its primary", async || {
                let done = self.nodes[index].ask::<()>(&["CLUSTER", "REPLICATE", &primary]).await;
                done.map_err(|error| error.to_string())
            })
            .await;
        }
        for index in 0..self.nodes.len() - primaries {
            self.replica_of(index).await;
        }
    }
}

impl SlotMove<'_> {
    /// Migrates some of the keys that are still on the old node. Returns how many there were.
    pub async fn move_keys(&self) -> usize {
        let from = &self.cluster.nodes[self.from];
        let keys = ["CLUSTER", "GETKEYSINSLOT", &self.slot, MOVED_AT_ONCE];
        let keys: Vec<String> = from.ask(&keys).await.unwrap();
        if !keys.is_empty() {
            let port = self.cluster.nodes[self.to].port().to_string();
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "30000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            // The answer is `NOKEY`, not an error, if the keys are gone meanwhile.
            from.ask::<()>(&words).await.unwrap();
        }
        keys.len()
    }

    /// Tells all primaries that the slot is on its new node.
    pub async fn end(self) {
        let id = self.cluster.id(self.to).await;
        // Tell the new node first: it must serve the slot when the old node redirects clients.
        let others = (0..self.cluster.nodes.len()).filter(|node| *node != self.to);
        for index in std::iter::once(self.to).chain(others) {
            let node = &self.cluster.nodes[index];
            if node.is_answering() && node.info("role").await == "master" {
                let words = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &id];
                let told = node.ask::<()>(&words).await;
                // The node may have become a replica meanwhile. Then its primary tells it.
                assert!(told.is_ok() || node.info("role").await == "slave", "{told:?}");
            }
        }
    }
}

/// The port of a primary that serves a slot, from its line of `CLUSTER NODES`.
fn port_of_owner(line: &str, slot: u16) -> Option<u16> {
    let words: Vec<&str> = line.split(' ').collect();
    let serves = |range: &&str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = (first.parse::<u16>(), last.parse::<u16>());
        matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    };
    words.get(8..)?.iter().find(|range| serves(range))?;
    let address = words[1].split('@').next()?;
    address.rsplit(':').next()?.parse().ok()
}

async fn start_node(
    node_timeout_ms: u32,
    extra_args: &[&str],
    tls: Option<&Authority>,
) -> (TestRedis, u16) {
    let (bus_port, timeout) = (free_port().to_string(), node_timeout_ms.to_string());
    let args = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        &timeout,
        "--cluster-port",
        &bus_port,
        "--cluster-require-full-coverage",
        "no",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let node = TestRedis::start_at(None, &[&args[..], extra_args].concat(), tls).await;
    (node, bus_port.parse().unwrap())
}
