//! Errors in arguments that only the command itself can detect.

/// The parser accepts the arguments, but they contradict each other or make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);
