//! Turning one message into another: the trait, and one file per kind of transform.
//!
//! A transform written in Rust implements [`Transform`]; see the crate's example.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::{Body, Stamped};

mod http;

pub use http::Http;

/// What a transform that succeeded says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Deliver this body in place of the message's own.
    Deliver(Body),
    /// Deliver nothing: the message keeps its place until its lane has passed it.
    Drop,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// What happened, for people. Never a secret.
    pub reason: String,
    /// How long to wait at least before the next attempt, if the other side said.
    pub retry_after: Option<Duration>,
    /// True when another attempt cannot help.
    pub is_final: bool,
}

/// Processes messages. Called for many messages at once, in any order.
#[async_trait]
pub trait Transform: Send + Sync {
    /// One attempt at one message. It may be run again for the same message, also after it
    /// succeeded (a crash before the result was kept), so it should be idempotent.
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure>;
}
