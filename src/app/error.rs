//! Why a process did not start, or had to end.

use config::ConfigError;
use domain::DestinationName;
use redis_client::embedded::EmbeddedError;
use store::{StoreError, UnfitServer};

/// Why a process did not start, or had to end. Each text is a sentence.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The embedded Redis failed.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The configured Redis is not usable.
    #[error(transparent)]
    Redis(#[from] UnfitServer),
    /// A call during the start failed.
    #[error("Reseq could not start: {0}")]
    Store(#[from] StoreError),
    /// Redis refused a definition of the configuration file.
    #[error("the destination {name:?} of the configuration file was refused: {problem}")]
    Definition {
        /// The name of the destination.
        name: DestinationName,
        /// The cause.
        problem: StoreError,
    },
    /// The configuration needs more than the system allows.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Reseq cannot listen on an address.
    #[error(
        "cannot listen on {place}: {problem}; end what uses it, or set {field} to another address"
    )]
    Listen {
        /// The address or name.
        place: String,
        /// The configuration field that names the address.
        field: &'static str,
        /// The cause.
        problem: std::io::Error,
    },
    /// A program with Reseq as a library was started to run `jq` expressions, which only the `reseq` binary can do.
    #[error(
        "this program was started to run jq expressions, which only a reseq binary can; \
         RESEQ_JQ_RUNNER must name one"
    )]
    NoJqRunner,
    /// An essential part of the process has ended.
    #[error(
        "the {what} of this process ended unexpectedly, so the process ends; its log may say why"
    )]
    Ended {
        /// The name of the part.
        what: &'static str,
    },
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built: {0}")]
    Client(#[from] reqwest::Error),
}
