//! Connections for calls that block their connection (`WAIT`, `WAITAOF`). Each such call takes a
//! connection from a pool, for exclusive use.

use std::sync::Arc;

use deadpool_redis::{Connection, Manager, Pool, PoolError};
use parking_lot::MutexGuard;
use redis::{ProtocolVersion, aio::MultiplexedConnection};

use super::{
    dial::{Certificates, not_in_time, tuned, unreached},
    error::ClientError,
    node::{Node, NodeAddress},
};

/// A connection that serves one call only.
pub(super) struct Dedicated {
    node: Arc<Node>,
    connection: Option<Connection>,
}

impl Node {
    /// Takes a connection from the pool for a call that blocks it. [`Dedicated::give_back`] returns it to the pool.
    pub(super) async fn take_alone(
        self: &Arc<Self>,
    ) -> Result<(Dedicated, MultiplexedConnection), ClientError> {
        if self.is_down() {
            // Fail fast if the server did not answer before.
            self.take().await?;
        }
        let taken = tokio::time::timeout(self.patience, self.take_of_pool()).await;
        let taken = taken.unwrap_or_else(|_| Err(not_in_time()))?;
        let connection = MultiplexedConnection::clone(&taken);
        Ok((Dedicated { node: self.clone(), connection: Some(taken) }, connection))
    }

    async fn take_of_pool(&self) -> Result<Connection, ClientError> {
        let pool = self.pool().await?;
        pool.get().await.map_err(|error| {
            // The pool may point to a server that is no longer the primary.
            self.forget_pool();
            match error {
                PoolError::Backend(error) => unreached(error),
                error => ClientError::Unavailable(error.to_string()),
            }
        })
    }

    async fn pool(&self) -> Result<Pool, ClientError> {
        let certificates = self.dialer.certificates();
        if let Some((pool, _)) = &*self.kept_pool(&certificates) {
            return Ok(pool.clone());
        }
        let info = match &self.address {
            NodeAddress::Fixed(info) => (**info).clone(),
            NodeAddress::Sentinel(sentinels) => sentinels.primary_info().await?,
        };
        // The answer arrives only after the wait for replicas.
        let config = self.config(self.patience * 2);
        let info = tuned(&info, ProtocolVersion::RESP2, &certificates).map_err(unreached)?;
        let manager = Manager::new_with_config(info, config);
        let pool = Pool::builder(manager.map_err(unreached)?).max_size(self.connections()).build();
        let pool = pool.map_err(|error| ClientError::Unavailable(error.to_string()))?;
        let mut kept = self.kept_pool(&certificates);
        Ok(kept.get_or_insert((pool, certificates)).0.clone())
    }

    /// The pool. Drops it first if its connections use other certificates.
    fn kept_pool(
        &self,
        certificates: &Certificates,
    ) -> MutexGuard<'_, Option<(Pool, Certificates)>> {
        let mut kept = self.pool.lock();
        if kept.as_ref().is_some_and(|(_, of_pool)| of_pool != certificates) {
            *kept = None;
        }
        kept
    }
}

impl Dedicated {
    /// Returns the connection to the pool after its call was answered.
    pub(super) fn give_back(mut self) {
        drop(self.connection.take());
    }

    /// The server of this connection.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        // The call failed or was dropped: close its connection. Connections in the pool may be broken too.
        if let Some(connection) = self.connection.take() {
            drop(Connection::take(connection));
            self.node.forget_pool();
        }
    }
}
