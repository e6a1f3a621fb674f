//! Sends messages to their receiver: the trait, and one file for each kind of receiver.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use domain::Finality;
use domain::{AttemptError, DeliveryKind, Destination, Stamped};
use outbound::http_client::Clients;

#[cfg(feature = "planted-bugs")]
mod fault_injection;
mod http;
mod none;
mod pull;
mod tcp;

/// The result of one delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver accepted this many messages, the first ones.
    Accepted(usize),
    /// The receiver did not accept one of the messages, or its answer is unknown.
    Refused {
        /// The number of messages before the refused one, all accepted.
        accepted: usize,
        /// The error.
        error: AttemptError,
        /// The wait that the receiver asked for, if any.
        retry_after: Option<Duration>,
        /// Whether another attempt may succeed.
        finality: Finality,
    },
}

/// A transport to a receiver. One value serves all lanes of a destination at once.
#[async_trait]
pub trait Deliver: Send + Sync {
    /// Attempts to deliver messages of one lane, in order, within the destination's
    /// `delivery.timeout_ms`. `attempt` is the number, from 1, of this attempt at the first message.
    /// There is more than one message only if `delivery.batch_max` or `delivery.window_max` allows it.
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict;
}

/// The transport to this destination's receiver or consumers, by its kind and URL. Batches and envelopes nest at most
/// `json_depth_max` levels deep.
pub fn connect(
    destination: &Destination,
    clients: &Clients,
    json_depth_max: usize,
) -> Arc<dyn Deliver> {
    let way: Arc<dyn Deliver> = match destination.delivery.kind {
        DeliveryKind::None => Arc::new(none::None),
        DeliveryKind::Pull => Arc::new(pull::Pull),
        _ if destination.is_tcp() => {
            Arc::new(tcp::Tcp::new(destination, clients.clone(), json_depth_max))
        }
        _ => Arc::new(http::Http::new(destination, clients.clone(), json_depth_max)),
    };
    #[cfg(feature = "planted-bugs")]
    let way = fault_injection::wrap(way);
    way
}
