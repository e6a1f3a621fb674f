//! Connections to Redis: a single server, Sentinel, or a cluster.

mod channel;
mod cluster;
mod dedicated;
mod fitness;
mod node;
mod sentinel;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crc::{CRC_16_XMODEM, Crc};
use futures::future::join_all;
use redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    ServerErrorKind,
};
use tokio::time::Instant;

pub(super) use channel::Channel;
pub use fitness::{Fitness, UnfitServer};
pub(super) use node::Node;

use super::{
    StoreError,
    rights::{Needs, Probe},
};
use crate::config::{self, Access, Host, Topology};
use cluster::Cluster;
use node::NodeAddress;
use sentinel::Sentinels;

/// The slots of a cluster.
const SLOTS: u16 = 16_384;
const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
/// How long a start waits while Redis loads its data.
const LOADING_PATIENCE: Duration = Duration::from_secs(120);

/// All connections of this process.
pub(super) struct Links {
    servers: Servers,
    /// How long to wait for an answer, and for a slot that is being migrated.
    pub(super) patience: Duration,
}

enum Servers {
    One(Arc<Node>),
    Cluster(Box<Cluster>),
}

/// A server, and the indices of the list entries that it serves.
pub(super) type NodeKeys = (Arc<Node>, Vec<usize>);

/// The target of a call.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) node: Arc<Node>,
    /// The slot is being migrated to this node.
    pub(super) asking: bool,
}

/// How to go on after a call failed.
pub(super) enum Next {
    /// Repeat the call there: it has not run.
    Again(Route),
    /// Repeat the call a little later, for at most this long in all.
    Later(Duration),
    /// The caller must decide.
    GiveUp,
}

impl Links {
    pub(super) fn open(settings: &config::Redis) -> Result<Links, StoreError> {
        let (patience, count) = (settings.timeout(), settings.connections);
        let topology = settings.topology().map_err(StoreError::Unavailable)?;
        let servers = match topology {
            Topology::Single { url } => {
                let info = Box::new(url.as_str().into_connection_info()?);
                Servers::One(Node::new(NodeAddress::Fixed(info), count, patience))
            }
            Topology::Sentinel { sentinels, service, access } => {
                let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
                let own = Access {
                    user: some(&settings.sentinel_user),
                    password: some(&settings.sentinel_password),
                    database: 0,
                };
                let sentinels = Sentinels::new(&sentinels, &own, &service, &access);
                Servers::One(Node::new(NodeAddress::Sentinel(sentinels), count, patience))
            }
            Topology::Cluster { nodes, access } => {
                Servers::Cluster(Box::new(Cluster::new(&nodes, &access, count, patience)))
            }
        };
        Ok(Links { servers, patience })
    }

    /// The server of a key.
    pub(super) async fn route(&self, key: &[u8]) -> Result<Route, StoreError> {
        let cluster = match &self.servers {
            Servers::One(node) => return Ok(Route { node: node.clone(), asking: false }),
            Servers::Cluster(cluster) => cluster,
        };
        let slot = slot_of(key);
        let mut node = cluster.of_slot(slot);
        if node.is_none() {
            cluster.ask().await?;
            node = cluster.of_slot(slot);
        }
        let nobody =
            || StoreError::Unavailable(format!("no node of the cluster serves slot {slot}"));
        Ok(Route { node: node.ok_or_else(nobody)?, asking: false })
    }

    /// Groups keys by their server, as indices. The second list holds keys that no server serves
    /// now.
    pub(super) fn spread(&self, keys: &[String]) -> (Vec<NodeKeys>, Vec<usize>) {
        let cluster = match &self.servers {
            Servers::One(node) => {
                return (vec![(node.clone(), (0..keys.len()).collect())], Vec::new());
            }
            Servers::Cluster(cluster) => cluster,
        };
        let mut by_node: BTreeMap<usize, NodeKeys> = BTreeMap::new();
        let mut unserved = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            match cluster.of_slot(slot_of(key.as_bytes())) {
                Some(node) => {
                    let place = Arc::as_ptr(&node) as usize;
                    by_node.entry(place).or_insert_with(|| (node, Vec::new())).1.push(index);
                }
                None => unserved.push(index),
            }
        }
        (by_node.into_values().collect(), unserved)
    }

    /// All servers that hold data and accept writes.
    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        match &self.servers {
            Servers::One(node) => vec![node.clone()],
            Servers::Cluster(cluster) => cluster.masters(),
        }
    }

    /// How to go on after this node answered a call with an error.
    pub(super) async fn after(&self, error: &RedisError, asked: &Node) -> Next {
        let ErrorKind::Server(kind) = error.kind() else { return Next::GiveUp };
        let Servers::Cluster(cluster) = &self.servers else { return Next::GiveUp };
        match kind {
            ServerErrorKind::Moved | ServerErrorKind::Ask => {
                let Some((host, slot)) = redirect(error) else { return Next::GiveUp };
                let host = if host.0.is_empty() { (asked.host().0, host.1) } else { host };
                if kind == ServerErrorKind::Moved {
                    cluster.moved(slot, &host);
                }
                let asking = kind == ServerErrorKind::Ask;
                Next::Again(Route { node: cluster.node(&host), asking })
            }
            // During a migration, the keys of the call are on two nodes.
            ServerErrorKind::TryAgain => Next::Later(self.patience),
            // A master is gone and has no successor yet. That may take long, so give up earlier.
            ServerErrorKind::ClusterDown => Next::Later(self.patience / 10),
            _ => Next::GiveUp,
        }
    }

    /// Finds out which server is primary and which serves each slot.
    pub(super) async fn survey(&self) -> Result<(), StoreError> {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.ask().await,
            Servers::One(node) => {
                if let Some(sentinels) = node.sentinels()
                    && sentinels.has_moved().await
                {
                    // The old primary may still answer, cut off from the others.
                    tracing::info!("the sentinels name another primary");
                    node.discard_all();
                }
                Ok(())
            }
        }
    }

    /// Which rights this topology needs beyond the common ones.
    pub(super) fn needs(&self, replicas: bool) -> Needs {
        let (cluster, sentinel) = match &self.servers {
            Servers::Cluster(_) => (true, false),
            Servers::One(node) => (false, node.sentinels().is_some()),
        };
        Needs { cluster, sentinel, replicas }
    }

    /// Waits until all primaries have loaded their data, and checks them.
    pub(super) async fn check(&self, url: &str, probe: &Probe) -> Result<Fitness, UnfitServer> {
        let unreachable =
            |problem: String| UnfitServer::Unreachable { url: url.to_owned(), problem };
        self.survey().await.map_err(|error| unreachable(error.to_string()))?;
        let in_cluster = matches!(self.servers, Servers::Cluster(_));
        let deadline = Instant::now() + LOADING_PATIENCE;
        let primaries = self.primaries();
        let checks = primaries.iter().map(|node| loaded(node, url, deadline, in_cluster, probe));
        let mut all: Option<Fitness> = None;
        for checked in join_all(checks).await {
            match checked {
                Ok(fitness) => all = Some(all.map_or(fitness.clone(), |all| all.and(fitness))),
                // One dead master stops only its own partitions. It is checked when it is back.
                Err(UnfitServer::Unreachable { problem, .. }) if primaries.len() > 1 => {
                    tracing::warn!(problem, "a master of the cluster cannot be checked");
                }
                Err(unfit) => return Err(unfit),
            }
        }
        all.ok_or_else(|| unreachable("no master answers".into()))
    }
}

async fn loaded(
    node: &Arc<Node>,
    url: &str,
    deadline: Instant,
    in_cluster: bool,
    probe: &Probe,
) -> Result<Fitness, UnfitServer> {
    let unreachable = |problem: String| UnfitServer::Unreachable { url: url.to_owned(), problem };
    loop {
        let mut link = node.take().await.map_err(|error| unreachable(error.to_string()))?;
        let missing = probe.run(&mut link.connection).await;
        match missing {
            Ok(missing) => {
                if let Some(sentence) = missing.rights_sentence() {
                    return Err(UnfitServer::NoRights { url: url.to_owned(), sentence });
                }
                let connection = &mut link.connection;
                let mut fitness = fitness::check_server(connection, url, in_cluster).await?;
                fitness.lacks = missing.hints_sentence();
                return Ok(fitness);
            }
            Err(error) if error.code() == Some("LOADING") && Instant::now() < deadline => {
                tracing::info!("Redis is loading its data; waiting for it");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(unreachable(error.to_string())),
        }
    }
}

/// True when the connection that gave this error must not be used again.
pub(super) fn is_broken(error: &RedisError) -> bool {
    use ServerErrorKind as S;
    error.is_unrecoverable_error()
        || error.is_io_error()
        // The server is no longer the primary, or may not be: reconnect to find the current one.
        || matches!(
            error.kind(),
            ErrorKind::Server(S::ReadOnly | S::BusyLoading | S::MasterDown)
        )
        || matches!(error.code(), Some("NOREPLICAS" | "UNBLOCKED"))
}

/// The address and slot of a redirect. The host may be empty.
fn redirect(error: &RedisError) -> Option<(Host, u16)> {
    let (address, slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = if host == "?" { "" } else { host };
    Some(((host.to_owned(), port.parse().ok()?), slot))
}

/// The slot of a key: that of its hash tag, if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    CRC.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

fn info_of(host: &Host, access: &Access) -> ConnectionInfo {
    let mut settings = RedisConnectionInfo::default().set_db(access.database);
    if let Some(user) = &access.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &access.password {
        settings = settings.set_password(password);
    }
    let address = ConnectionAddr::Tcp(host.0.clone(), host.1);
    // Only a URL can fail to convert, and this is an address.
    address.into_connection_info().unwrap_or_else(|_| unreachable!()).set_redis_settings(settings)
}

fn unreadable() -> StoreError {
    StoreError::Unreadable("the answer of CLUSTER SLOTS has an unexpected format".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_slot_that_redis_says() {
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"reseq:{foo}:d:x:{y}"), 12182);
        assert_eq!(slot_of(b"{}foo"), slot_of(b"{}foo"));
        assert_ne!(slot_of(b"{}foo"), slot_of(b"{}bar"));
    }
}
