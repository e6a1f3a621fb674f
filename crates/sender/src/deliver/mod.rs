//! Sends messages to their receiver: the trait, and one file for each kind of receiver.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

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
    /// The receiver accepted this many of the messages, from the first on.
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
