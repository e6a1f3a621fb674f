//! Connections for calls that hold up whatever comes after them (`WAIT`): each has one for itself,
//! out of a pool.

use std::sync::{Arc, PoisonError};

use deadpool_redis::{Connection, Manager, Pool};
use redis::{ProtocolVersion, aio::MultiplexedConnection};

use super::{
    dial::{not_in_time, tuned, unreached},
    error::ClientError,
    node::{Node, NodeAddress},
};

/// A connection that one call has for itself.
pub(super) struct Dedicated {
    node: Arc<Node>,
    connection: Option<Connection>,
}

impl Node {
    /// A connection for a call that holds up whatever comes after it. It is kept when it is given
    /// back.
    pub(super) async fn take_alone(
        self: &Arc<Self>,
    ) -> Result<(Dedicated, MultiplexedConnection), ClientError> {
        if self.is_down() {
            // Nobody waits long for a server that did not answer before.
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
            // It may lead to a server that is not meant any more.
            self.forget_pool();
            ClientError::Unavailable(error.to_string())
        })
    }

    async fn pool(&self) -> Result<Pool, ClientError> {
        if let Some(pool) = self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(pool);
        }
        let info = match &self.address {
            NodeAddress::Fixed(info) => (**info).clone(),
            NodeAddress::Sentinel(sentinels) => sentinels.primary_info().await?,
        };
        // The answer comes when the wait for replicas is over.
        let config = self.config(self.patience * 2);
        let manager = Manager::new_with_config(tuned(&info, ProtocolVersion::RESP2), config);
        let pool = Pool::builder(manager.map_err(unreached)?).max_size(self.connections()).build();
        let pool = pool.map_err(|error| ClientError::Unavailable(error.to_string()))?;
        let mut kept = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.get_or_insert(pool).clone())
    }
}

impl Dedicated {
    /// Keeps the connection for the next call: this one was answered.
    pub(super) fn give_back(mut self) {
        drop(self.connection.take());
    }

    /// Where it leads.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Connection::take(connection));
            self.node.forget_pool();
        }
    }
}
