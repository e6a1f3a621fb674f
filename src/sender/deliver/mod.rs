//! Sends messages to their receiver: the trait, and one file for each kind of receiver.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    domain::{AttemptError, DeliveryKind, Destination, Stamped},
    sender::{destination::Gauge, partition_lease::PartitionLease},
    store::{Catalog, CatalogEntry, Store},
    wire::clients::Clients,
};

#[cfg(feature = "planted-bugs")]
mod fault_injection;
mod http;
mod none;
mod pull;
mod tcp;

/// The result of one delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver accepted this many of the messages, from the first on. None if a delivery to consumers
    /// ended before one of them had it.
    Accepted(usize),
    /// The receiver did not accept one of the messages, or its answer is unknown.
    Refused {
        /// How many before that one it accepted.
        accepted: usize,
        /// What happened.
        error: AttemptError,
        /// How long the receiver asked to wait, if it did.
        retry_after: Option<Duration>,
        /// Whether to try again.
        finality: Finality,
    },
}

/// What a refusal says about further attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finality {
    /// Another attempt may succeed.
    Retryable,
    /// No attempt at this message will ever succeed.
    Permanent,
    /// Another attempt may succeed. When the attempts are used up, an operator must act: the fault is in
    /// the configuration, not in the message.
    RetryableThenHalts,
    /// No attempt at any message will succeed: the receiver is gone, and an operator must act.
    Halts,
}

/// A transport to a receiver. One value serves all lanes of a destination at once.
#[async_trait]
pub trait Deliver: Send + Sync {
    /// One attempt at messages of one lane, in order, the `attempt`th (from 1) at the first of
    /// them, within the destination's `delivery.timeout_ms`. More than one only where
    /// `delivery.batch_max` or `delivery.window_max` says so.
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict;

    /// Something of the destination has changed in Redis.
    fn poked(&self) {}

    /// Ends the delivery of this lane with [`Verdict::Accepted`] if no consumer has it: one of its messages
    /// is to be withdrawn.
    fn recall(&self, _lane: Option<&str>) {}

    /// The next delivery of this lane could have this many messages. Ends the one that waits for a consumer with
    /// [`Verdict::Accepted`] if it has far fewer. The offer stays in Redis, and the next delivery goes on with it.
    fn grown(&self, _lane: Option<&str>, _count: usize) {}

    /// Ends all deliveries that wait for consumers with [`Verdict::Accepted`]. The offers stay in Redis, and
    /// another transport goes on with them.
    fn let_go(&self) {}
}

/// What a transport needs.
#[derive(Clone)]
pub(super) struct Connecting {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) lease: Arc<PartitionLease>,
    /// Sends HTTP deliveries.
    pub(super) clients: Clients,
    /// How deeply the JSON of batches and envelopes may nest.
    pub(super) json_depth_max: usize,
    /// Shows how much is being delivered.
    pub(super) gauge: Arc<Gauge>,
}

/// The transport to this destination's receiver or consumers.
pub(super) fn transport_of(entry: &CatalogEntry, connecting: Connecting) -> Arc<dyn Deliver> {
    if entry.destination.delivery.kind == DeliveryKind::Pull {
        return Arc::new(pull::Pull::new(entry, connecting));
    }
    connect(&entry.destination, &connecting.clients, connecting.json_depth_max)
}

/// The transport to this destination's receiver, by its kind and URL; consumers need [`transport_of`]. Batches and
/// envelopes nest at most `json_depth_max` levels deep.
pub fn connect(
    destination: &Destination,
    clients: &Clients,
    json_depth_max: usize,
) -> Arc<dyn Deliver> {
    let way: Arc<dyn Deliver> = match destination.delivery.kind {
        DeliveryKind::None => Arc::new(none::None),
        _ if destination.is_tcp() => {
            Arc::new(tcp::Tcp::new(destination, clients.clone(), json_depth_max))
        }
        _ => Arc::new(http::Http::new(destination, clients.clone(), json_depth_max)),
    };
    #[cfg(feature = "planted-bugs")]
    let way = fault_injection::wrap(way);
    way
}
