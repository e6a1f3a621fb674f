//! Connections to Redis, and the checks of the server before anything is trusted to it.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use deadpool_redis::{Connection, Manager, Pool};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, RedisError,
    aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::{sync::Mutex, time::Instant};

use super::StoreError;
use crate::config;

/// A pool's connections, each kept and shared by many calls at once.
///
/// A checkout from the pool costs a PING, so it is not paid for every call: a connection stays
/// checked out until it fails, and then another takes its place.
pub(super) struct Links {
    client: Client,
    pool: Pool,
    places: Vec<Mutex<Place>>,
    next: AtomicUsize,
    patience: Duration,
}

/// Where one connection is kept.
#[derive(Default)]
struct Place {
    kept: Option<Connection>,
    /// Counts the connections that were kept here.
    number: u64,
    /// The last attempt to connect that failed, and when.
    failed: Option<(Instant, StoreError)>,
}

/// A connection to make one call with.
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    place: usize,
    number: u64,
}

impl Links {
    pub(super) fn open(settings: &config::Redis) -> Result<Links, StoreError> {
        let info: ConnectionInfo = settings.url.as_str().into_connection_info()?;
        // redis-rs leaves Nagle's algorithm on, which would hold small calls back.
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let patience = settings.timeout();
        let connection = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            .set_response_timeout(Some(patience));
        let manager = Manager::new_with_config(info.clone(), connection)?;
        let pool = Pool::builder(manager)
            .max_size(settings.connections)
            .build()
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let places = (0..settings.connections).map(|_| Mutex::default()).collect();
        Ok(Links { client: Client::open(info)?, pool, places, next: AtomicUsize::new(0), patience })
    }

    /// A connection that is there, or a fresh one. While one call connects, the others of its
    /// place wait for it, and share its failure.
    pub(super) async fn take(&self) -> Result<Link, StoreError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let asked = Instant::now();
        let mut place = self.places[index].lock().await;
        if let Some(kept) = &place.kept {
            let connection = MultiplexedConnection::clone(kept);
            return Ok(Link { connection, place: index, number: place.number });
        }
        if let Some((_, error)) = place.failed.as_ref().filter(|(when, _)| *when > asked) {
            return Err(error.clone());
        }
        let fresh = match tokio::time::timeout(self.patience, self.pool.get()).await {
            Ok(Ok(fresh)) => fresh,
            Ok(Err(error)) => return Err(place.fail(error.to_string())),
            Err(_) => return Err(place.fail("no connection in time".into())),
        };
        let connection = MultiplexedConnection::clone(&fresh);
        place.kept = Some(fresh);
        place.number += 1;
        Ok(Link { connection, place: index, number: place.number })
    }

    /// Lets go of a connection that failed; the next call there opens another.
    pub(super) async fn discard(&self, place: usize, number: u64) {
        let mut place = self.places[place].lock().await;
        // Another call may have been here before, and what is there now may be sound.
        if place.number != number {
            return;
        }
        if let Some(connection) = place.kept.take() {
            // Taken out of the pool for good, so that it is not handed out again.
            drop(Connection::take(connection));
        }
    }

    /// A connection of its own for notifications.
    pub(super) async fn notifications(&self) -> Result<redis::aio::PubSub, StoreError> {
        self.client.get_async_pubsub().await.map_err(unreached)
    }
}

impl Link {
    /// What [`Links::discard`] needs to find it.
    pub(super) fn id(&self) -> (usize, u64) {
        (self.place, self.number)
    }
}

impl Place {
    /// Notes that nothing could be reached: nothing was sent.
    fn fail(&mut self, problem: String) -> StoreError {
        let error = StoreError::Unavailable(problem);
        self.failed = Some((Instant::now(), error.clone()));
        error
    }
}

/// An error while connecting: nothing was sent.
fn unreached(error: RedisError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// True when the connection that gave this error must not be used again.
pub(super) fn is_broken(error: &RedisError) -> bool {
    use redis::{ErrorKind, ServerErrorKind};
    error.is_unrecoverable_error()
        || error.is_io_error()
        // A primary that became a replica: connect again, to whoever is primary now.
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

/// Why Reseq does not start on this Redis. Each is a plain sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum UnfitServer {
    /// It does not answer.
    #[error("Redis at {url} cannot be reached: {problem}. Check redis.url, and that Redis runs.")]
    Unreachable {
        /// Where it should be, without its password.
        url: String,
        /// What happened.
        problem: String,
    },
    /// Too old for what the scripts use.
    #[error("Redis at {url} is version {version}; Reseq needs 7.0 or later.")]
    TooOld {
        /// Where it is.
        url: String,
        /// What it says it is.
        version: String,
    },
    /// It would throw messages away.
    #[error(
        "Redis at {url} has maxmemory-policy {policy}, which would throw messages away when memory \
         runs out. Set maxmemory-policy noeviction."
    )]
    Evicts {
        /// Where it is.
        url: String,
        /// Its policy.
        policy: String,
    },
    /// A cluster, to which single connections do not do.
    #[error("Redis at {url} is a node of a cluster; this version of Reseq needs a single Redis.")]
    IsCluster {
        /// Where it is.
        url: String,
    },
    /// The deployment has another number of partitions.
    #[error(
        "This deployment was first started with {stored} partitions, but redis.partitions is \
         {configured}. The number can never change: set redis.partitions = {stored}."
    )]
    WrongPartitions {
        /// What Redis holds.
        stored: u16,
        /// What the configuration says.
        configured: u16,
    },
    /// Written by a newer version of Reseq.
    #[error("{}.", super::schema::newer_sentence(*.stored))]
    NewerSchema {
        /// What Redis holds.
        stored: u32,
    },
}

/// What is worth a warning, but no refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitness {
    /// The server's version.
    pub version: String,
    /// Sentences for the operator.
    pub warnings: Vec<String>,
}

/// Checks version, eviction, persistence and mode of the server.
pub(super) async fn check_server(
    connection: &mut MultiplexedConnection,
    url: &str,
) -> Result<Fitness, UnfitServer> {
    let unreachable = |error: RedisError| UnfitServer::Unreachable {
        url: url.to_owned(),
        problem: error.to_string(),
    };
    let info: redis::InfoDict =
        redis::cmd("INFO").query_async(connection).await.map_err(unreachable)?;
    let field = |name: &str| info.get::<String>(name).unwrap_or_default();
    let version = field("redis_version");
    let major: u32 = version.split('.').next().and_then(|v| v.parse().ok()).unwrap_or(0);
    if major < 7 {
        return Err(UnfitServer::TooOld { url: url.into(), version });
    }
    if field("redis_mode") == "cluster" {
        return Err(UnfitServer::IsCluster { url: url.into() });
    }
    let policy = field("maxmemory_policy");
    if policy != "noeviction" {
        return Err(UnfitServer::Evicts { url: url.into(), policy });
    }
    let mut warnings = Vec::new();
    if field("aof_enabled") != "1" {
        warnings.push(
            "Redis keeps no append-only file: a restart of Redis loses messages. \
             Set appendonly yes."
                .to_owned(),
        );
    }
    Ok(Fitness { version, warnings })
}

/// How long a start waits for a Redis that is still loading its data.
pub(super) const LOADING_PATIENCE: Duration = Duration::from_secs(120);
