//! All servers of a deployment: chooses the server of a call, and the next server after an error.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redis::{ErrorKind, IntoConnectionInfo, RedisError, ServerErrorKind};

use super::{
    blocks::Coalescer,
    cluster::Cluster,
    complete_file::CompleteFiles,
    dial::Dialer,
    error::ClientError,
    node::{Node, NodeAddress},
    replication::Takeovers,
    sentinel::Sentinels,
    slot::slot_of,
};
use config::{self, Access, Host, Topology};

/// All connections of this process to Redis. Cheap to clone.
#[derive(Clone)]
pub struct RedisClient {
    servers: Arc<Servers>,
    /// The time limit for an answer, and for repeats while a slot is being migrated.
    pub(super) patience: Duration,
    pub(super) takeovers: Arc<Takeovers>,
    pub(super) complete_files: Arc<CompleteFiles>,
    /// Joins calls into batches.
    pub(super) coalescer: Arc<Coalescer>,
}

/// How Redis is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single,
    /// A primary monitored by Sentinel.
    Sentinel,
    /// A cluster.
    Cluster,
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
    /// The slot is being migrated to this node: `ASKING` must precede each command.
    pub(super) asking: bool,
}

/// The next step after a call failed.
pub(super) enum Next {
    /// Repeat the call at this route: the call has not run.
    Again(Route),
    /// Repeat the call a little later, for at most this long in total.
    Later(Duration),
    /// The caller must decide.
    GiveUp,
}

impl RedisClient {
    /// Creates the client. The first calls open the connections.
    pub fn open(settings: &config::Redis) -> Result<RedisClient, ClientError> {
        let (patience, count) = (settings.timeout(), settings.connections);
        let topology = settings.topology().map_err(ClientError::Unavailable)?;
        let dialer = Dialer::new(topology.is_tls().then_some(&settings.tls))?;
        let servers = match topology {
            Topology::Single { url } => {
                let info = Box::new(url.as_str().into_connection_info()?);
                Servers::One(Node::new(NodeAddress::Fixed(info), dialer, count, patience))
            }
            Topology::Sentinel { sentinels, service, access, .. } => {
                let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
                let own = Access {
                    user: some(&settings.sentinel_user),
                    password: some(&settings.sentinel_password),
                    database: 0,
                };
                let sentinels = Sentinels::new(&sentinels, &own, &service, &access, &dialer);
                let address = NodeAddress::Sentinel(sentinels);
                Servers::One(Node::new(address, dialer, count, patience))
            }
            Topology::Cluster { nodes, access, .. } => {
                let cluster = Cluster::new(&nodes, &access, &dialer, count, patience);
                Servers::Cluster(Box::new(cluster))
            }
        };
        Ok(RedisClient {
            servers: Arc::new(servers),
            patience,
            takeovers: Arc::default(),
            complete_files: Arc::default(),
            coalescer: Arc::default(),
        })
    }

    /// How Redis is deployed.
    pub fn deployment(&self) -> Deployment {
        match &*self.servers {
            Servers::Cluster(_) => Deployment::Cluster,
            Servers::One(node) if node.sentinels().is_some() => Deployment::Sentinel,
            Servers::One(_) => Deployment::Single,
        }
    }

    /// The server that holds a key.
    pub(super) async fn route(&self, key: &[u8]) -> Result<Route, ClientError> {
        let cluster = match &*self.servers {
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
            || ClientError::Unavailable(format!("no node of the cluster serves slot {slot}"));
        Ok(Route { node: node.ok_or_else(nobody)?, asking: false })
    }

    /// The number of the batch that a call may join: the slot in a cluster, otherwise 0 for all keys.
    pub(super) fn batch_of(&self, key: &[u8]) -> u16 {
        match &*self.servers {
            Servers::One(_) => 0,
            Servers::Cluster(_) => slot_of(key),
        }
    }

    /// Groups keys by their server, as indices. The second list holds keys that no server serves now.
    pub(super) fn spread(&self, keys: &[String]) -> (Vec<NodeKeys>, Vec<usize>) {
        let cluster = match &*self.servers {
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

    /// Groups keys by their server, as indices. Leaves out keys that no server serves now.
    pub fn by_server(&self, keys: &[String]) -> Vec<Vec<usize>> {
        self.spread(keys).0.into_iter().map(|(_, members)| members).collect()
    }

    /// The servers known now.
    pub fn hosts(&self) -> Vec<Host> {
        let hosts = match &*self.servers {
            Servers::One(node) => match node.sentinels() {
                Some(sentinels) => sentinels.current().into_iter().collect(),
                None => vec![node.host()],
            },
            Servers::Cluster(cluster) => cluster.hosts(),
        };
        hosts.into_iter().filter(|(name, _)| !name.is_empty()).collect()
    }

    /// All servers that hold data and accept writes.
    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        match &*self.servers {
            Servers::One(node) => vec![node.clone()],
            Servers::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// The next step after this node answered a call with an error.
    pub(super) async fn after(&self, error: &RedisError, asked: &Node) -> Next {
        let ErrorKind::Server(kind) = error.kind() else { return Next::GiveUp };
        let Servers::Cluster(cluster) = &*self.servers else { return Next::GiveUp };
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
            // A primary has failed and has no successor yet. This may last long, so give up earlier.
            ServerErrorKind::ClusterDown => Next::Later(self.patience / 10),
            _ => Next::GiveUp,
        }
    }

    /// Finds the current primary, and the server of each slot.
    pub async fn survey(&self) -> Result<(), ClientError> {
        match &*self.servers {
            Servers::Cluster(cluster) => cluster.ask().await,
            Servers::One(node) => {
                if let Some(sentinels) = node.sentinels()
                    && sentinels.has_moved().await
                {
                    // The old primary may still answer, although it is cut off from the other servers.
                    node.discard_all();
                }
                Ok(())
            }
        }
    }
}

/// The address and slot of a redirect. The host may be empty.
fn redirect(error: &RedisError) -> Option<(Host, u16)> {
    let (address, slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = if host == "?" { "" } else { host };
    Some(((host.to_owned(), port.parse().ok()?), slot))
}
