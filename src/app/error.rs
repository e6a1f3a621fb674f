//! Why a process did not start, or had to end.

use std::net::SocketAddr;

use crate::{
    config::ConfigError,
    domain::DestinationName,
    redis_client::embedded::EmbeddedError,
    store::{StoreError, UnfitServer},
};

/// Why a process did not start, or had to end. Each is a plain sentence.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The embedded Redis.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The Redis that was configured.
    #[error(transparent)]
    Redis(#[from] UnfitServer),
    /// A call that starting needs.
    #[error("Reseq could not start: {0}")]
    Store(#[from] StoreError),
    /// A definition of the file that Redis refuses.
    #[error("the destination {name:?} of the configuration file was refused: {problem}")]
    Definition {
        /// Its name.
        name: DestinationName,
        /// Why.
        problem: StoreError,
    },
    /// The configuration asks for more than the system gives.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address} ({field}): {problem}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Which field says so.
        field: &'static str,
        /// Why not.
        problem: std::io::Error,
    },
    /// It was started by a Reseq in another program, which took it for a `reseq` binary.
    #[error(
        "this program was started to run jq expressions, which only a reseq binary can; \
         RESEQ_JQ_RUNNER must name one"
    )]
    NoJqRunner,
    /// A part of it is gone, without which it is of no use.
    #[error(
        "the {what} of this process ended by itself, so that the whole ends; its log may say why"
    )]
    Ended {
        /// Which part.
        what: &'static str,
    },
    /// The HTTP client.
    #[error("the HTTP client could not be made: {0}")]
    Client(#[from] reqwest::Error),
}
