//! One server and its connections: a few shared connections, and a pool for calls that wait for replicas.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use deadpool_redis::Pool;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError,
    aio::{AsyncPushSender, MultiplexedConnection},
};
use tokio::time::Instant;

use super::{
    dial::{Certificates, Dialer, not_in_time, unreached},
    error::ClientError,
    sentinel::Sentinels,
};
use config::Host;

/// Time limit for a connection to a server that did not answer the last attempt.
const GRACE: Duration = Duration::from_millis(50);

/// The address of a server.
pub(super) enum NodeAddress {
    /// A fixed address.
    Fixed(Box<ConnectionInfo>),
    /// The sentinels name the address.
    Sentinel(Sentinels),
}

/// A server.
pub(super) struct Node {
    pub(super) address: NodeAddress,
    pub(super) dialer: Dialer,
    /// The time limit for a connection, and for an answer.
    pub(super) patience: Duration,
    shared: Vec<SharedConnection>,
    next: AtomicUsize,
    /// For calls that wait for replicas ([`Node::take_alone`]). Created on first use.
    pub(super) pool: Mutex<Option<(Pool, Certificates)>>,
    /// True if the last attempt to connect failed, or a later call had no answer in time.
    is_down: AtomicBool,
    /// When the log reported that the server does not answer; `None` while it answers.
    silent_since: Mutex<Option<Instant>>,
}

/// One of the shared connections.
#[derive(Default)]
struct SharedConnection(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    connection: Option<MultiplexedConnection>,
    /// The attempt to connect that is in progress. Concurrent callers share it.
    opening: Option<Opening>,
    /// Counts the connections made here, to distinguish an old connection from its replacement.
    number: u64,
    opened: Option<Instant>,
}

type Opening = Shared<BoxFuture<'static, Result<(MultiplexedConnection, u64), ClientError>>>;

/// A shared connection for one call.
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    place: usize,
    number: u64,
    taken: Instant,
}

impl Node {
    pub(super) fn new(
        address: NodeAddress,
        dialer: Dialer,
        connections: usize,
        patience: Duration,
    ) -> Arc<Node> {
        Arc::new(Node {
            address,
            dialer,
            patience,
            shared: (0..connections).map(|_| SharedConnection::default()).collect(),
            next: AtomicUsize::new(0),
            pool: Mutex::default(),
            is_down: AtomicBool::new(false),
            silent_since: Mutex::default(),
        })
    }

    /// Returns an existing connection, or opens one.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Link, ClientError> {
        let taken = Instant::now();
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.shared.len();
        let opening = {
            let mut kept = self.shared[place].0.lock();
            if let Some(connection) = kept.connection.clone() {
                return Ok(Link { connection, place, number: kept.number, taken });
            }
            let opening = || {
                // Opens in a separate task, so that the attempt continues when its callers have given up.
                let task = tokio::spawn(self.clone().open(place));
                async move { task.await.unwrap_or_else(|_| Err(not_in_time())) }.boxed().shared()
            };
            kept.opening.get_or_insert_with(opening).clone()
        };
        // Fail fast if the server did not answer before, so that work for other servers continues.
        let patience = if self.is_down() { GRACE } else { self.patience };
        let opened = tokio::time::timeout(patience, opening).await;
        let (connection, number) = opened.unwrap_or_else(|_| Err(not_in_time()))?;
        Ok(Link { connection, place, number, taken })
    }

    async fn open(
        self: Arc<Self>,
        place: usize,
    ) -> Result<(MultiplexedConnection, u64), ClientError> {
        let opened = self.connect(self.patience).await;
        let mut kept = self.shared[place].0.lock();
        kept.opening = None;
        kept.number += 1;
        kept.opened = Some(Instant::now());
        kept.connection = opened.as_ref().ok().cloned();
        opened.map(|connection| (connection, kept.number))
    }

    /// Drops a connection that failed. The next call opens another. If an answer did not arrive in time, the network
    /// may have dropped the other connections too. So this drops all connections that are as old as this one, and the
    /// next call does not wait as long again.
    pub(super) fn discard(&self, link: &Link, error: &RedisError) {
        if error.is_timeout() {
            self.note_silent(&error.to_string());
            for place in &self.shared {
                let mut kept = place.0.lock();
                if kept.opened.is_some_and(|opened| opened <= link.taken) {
                    kept.connection = None;
                }
            }
        }
        let mut kept = self.shared[link.place].0.lock();
        // If another call has already replaced the connection, do not drop the new one.
        if kept.number == link.number {
            kept.connection = None;
        }
    }

    /// Drops all connections, because the server is no longer the right one.
    pub(super) fn discard_all(&self) {
        for place in &self.shared {
            place.0.lock().connection = None;
        }
        self.forget_pool();
    }

    /// Drops the pool. The next call that waits for replicas creates a new one. Connections in
    /// use end with their calls.
    pub(super) fn forget_pool(&self) {
        *self.pool.lock() = None;
    }

    /// A connection that receives published messages.
    pub(super) async fn listen(
        &self,
        heard: impl AsyncPushSender,
    ) -> Result<MultiplexedConnection, ClientError> {
        let config = self.config(self.patience).set_push_sender(heard);
        self.reach(&config, ProtocolVersion::RESP3).await
    }

    async fn connect(&self, answer: Duration) -> Result<MultiplexedConnection, ClientError> {
        self.reach(&self.config(answer), ProtocolVersion::RESP2).await
    }

    pub(super) fn config(&self, answer: Duration) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(answer))
    }

    async fn reach(
        &self,
        config: &AsyncConnectionConfig,
        protocol: ProtocolVersion,
    ) -> Result<MultiplexedConnection, ClientError> {
        let attempt = async {
            match &self.address {
                NodeAddress::Fixed(info) => {
                    self.dialer.dial(info, config, protocol).await.map_err(unreached)
                }
                NodeAddress::Sentinel(sentinels) => sentinels.dial_primary(config, protocol).await,
            }
        };
        let reached = tokio::time::timeout(self.patience, attempt).await;
        let reached = reached.unwrap_or_else(|_| Err(not_in_time()));
        match &reached {
            Ok(_) => self.note_answer(),
            Err(ClientError::Unavailable(problem)) => self.note_silent(problem),
            // The server answers, but refuses the connection.
            Err(_) => self.is_down.store(true, Ordering::Relaxed),
        }
        reached
    }

    /// Marks the server as not answering. The log reports it once.
    fn note_silent(&self, problem: &str) {
        self.is_down.store(true, Ordering::Relaxed);
        let mut since = self.silent_since.lock();
        if since.is_none() {
            *since = Some(Instant::now());
            tracing::warn!(address = self.name(), problem, "Redis does not answer");
        }
    }

    fn note_answer(&self) {
        self.is_down.store(false, Ordering::Relaxed);
        let since = self.silent_since.lock().take();
        if let Some(since) = since {
            let after_s = since.elapsed().as_secs();
            tracing::info!(address = self.name(), after_s, "Redis answers again");
        }
    }

    /// Marks the server as not answering: drops its connections, and later calls fail fast.
    pub(super) fn suspect(&self) {
        self.note_silent("no answer in time");
        self.discard_all();
    }

    /// The number of shared connections, and the most connections of the pool.
    pub(super) fn connections(&self) -> usize {
        self.shared.len()
    }

    /// True if the last attempt to connect failed, or a later call had no answer in time.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// The name of the server for people.
    pub(super) fn name(&self) -> String {
        match (self.host(), self.sentinels()) {
            (_, Some(sentinels)) => sentinels.name(),
            ((host, _), None) if host.is_empty() => "the primary".to_owned(),
            ((host, port), None) => format!("{host}:{port}"),
        }
    }

    /// The host and port if the address is fixed; otherwise empty.
    pub(super) fn host(&self) -> Host {
        match &self.address {
            NodeAddress::Fixed(info) => match info.addr() {
                ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                    (host.clone(), *port)
                }
                _ => Host::default(),
            },
            NodeAddress::Sentinel(_) => Host::default(),
        }
    }

    /// The sentinels that name this server's address; `None` if the address is fixed.
    pub(super) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.address {
            NodeAddress::Sentinel(sentinels) => Some(sentinels),
            NodeAddress::Fixed(_) => None,
        }
    }
}
