//! Wrong arguments that only the command itself can notice.

/// Arguments that the parser accepts, but that do not go together, or make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);
