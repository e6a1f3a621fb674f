//! Handing one message to its receiver: the trait, and one file per kind of receiver.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::domain::{Destination, Stamped};

pub use crate::wire::http::client;

mod http;
mod tcp;

/// What came of one attempt at a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has it.
    Accepted,
    /// The receiver does not have it, or did not say so.
    Refused {
        /// What happened, for people: a status, a time-out, a reason. Never a secret.
        reason: String,
        /// How long the receiver asked to wait, if it did.
        retry_after: Option<Duration>,
    },
}

/// A way to a receiver. One value serves all lanes of a destination at once.
#[async_trait]
pub trait Deliver: Send + Sync {
    /// One attempt, the `attempt`th (from 1), within the destination's `delivery.timeout_ms`.
    async fn deliver(&self, message: &Stamped, attempt: u32) -> Verdict;
}

/// The way to this destination's receiver, by its URL.
pub fn connect(destination: &Destination, client: &reqwest::Client) -> Arc<dyn Deliver> {
    if destination.is_tcp() {
        Arc::new(tcp::Tcp::new(destination))
    } else {
        Arc::new(http::Http::new(destination, client.clone()))
    }
}
