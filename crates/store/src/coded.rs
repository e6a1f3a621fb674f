//! The error codes and sentences that clients get for errors of the store.

use formats::code::{Code, Coded};

use super::StoreError;

impl Coded for StoreError {
    fn coded(&self) -> (Code, String) {
        let sentence = self.to_string();
        match self {
            StoreError::UnknownDestination => (Code::UnknownDestination, sentence),
            StoreError::WrongState(_) | StoreError::WrongHead | StoreError::BeingRemoved => {
                (Code::WrongState, sentence)
            }
            StoreError::WrongVersion(0) => {
                (Code::WrongVersion, "the destination does not exist (any more)".into())
            }
            StoreError::WrongVersion(version) => {
                let detail = format!("the current ETag is \"{version}\": read it again");
                (Code::WrongVersion, detail)
            }
            StoreError::TooManyTokens(_) => (Code::TooManyTokens, sentence),
            StoreError::CannotConfirm(_) => (Code::InvalidField, format!("durability: {self}")),
            StoreError::OutOfMemory => (
                Code::MemoryHigh,
                "Redis has little memory left (ingest.memory_high_percent); Reseq accepts nothing more until some \
                 of it is free"
                    .into(),
            ),
            StoreError::Unconfirmed(_) | StoreError::LostRights(_) => (
                Code::NotConfirmed,
                "Redis did not confirm the call: it may have been carried out".into(),
            ),
            StoreError::RefusesWrites(_) => {
                (Code::RedisRefusesWrites, format!("{self}; try again later"))
            }
            StoreError::NoSecretsKey(_) => (Code::NoSecretsKey, sentence),
            StoreError::NewerSchema(_) => (Code::NewerSchema, sentence),
            StoreError::NoRights(_) => (Code::NoRights, format!("{self}; nothing has changed")),
            StoreError::WrongType(_) => (Code::Damaged, format!("{self}; nothing has changed")),
            StoreError::Failed(_) => (
                Code::Damaged,
                "the data in Redis is damaged: see /readyz, and the log. Part of the call may have been carried out"
                    .into(),
            ),
            StoreError::Unreadable(_) => {
                tracing::error!(error = %self, "data in Redis cannot be read");
                let detail = "this version cannot read the data in Redis; see its log";
                (Code::Unreadable, detail.into())
            }
            _ => (
                Code::RedisUnavailable,
                "Redis is not available; nothing has changed, try again later".into(),
            ),
        }
    }
}
