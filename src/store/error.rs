//! What Redis and the scripts refuse, mapped in one place.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::schema;
use crate::domain::Epoch;

/// Why a call to the store did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis may have forgotten something since the caller looked; this is the epoch now.
    #[error("the epoch of the partition is now {0}")]
    StaleEpoch(Epoch),
    /// The pod's definition of the destination is not the current one.
    #[error("the destination's definition has changed")]
    StaleDefinition,
    /// The destination does not exist, or is being removed.
    #[error("there is no such destination")]
    UnknownDestination,
    /// The caller has since made another call; this one changed nothing.
    #[error("the call came late: its caller has gone on to another")]
    StaleCall,
    /// The caller does not own the partition (any more).
    #[error("another sender owns the partition")]
    NotOwner,
    /// Another sender owns the partition.
    #[error("another sender owns the partition for {lasts_ms} ms")]
    Owned {
        /// How long its lease lasts.
        lasts_ms: u64,
        /// The epoch of the partition.
        epoch: Epoch,
    },
    /// Releases wait until an owner that Redis forgot must have stopped.
    #[error("releases wait for {0} ms after a restart of Redis")]
    Quarantine(u64),
    /// The message is not its lane's head.
    #[error("the message is not the head of its lane")]
    WrongHead,
    /// The destination's state does not allow it; says why.
    #[error("{0}")]
    WrongState(String),
    /// Redis did not take the call; nothing has changed.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// The call was sent, and no answer came: it may have been carried out, or still be.
    #[error("Redis did not confirm the call: {0}")]
    Unconfirmed(String),
    /// The deployment cannot give the durability that is asked for; says what to change. Nothing has
    /// changed.
    #[error("{0}")]
    CannotConfirm(String),
    /// Redis refuses what would use more memory; nothing has changed.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// What Redis holds belongs to a newer version of Reseq; nothing has changed.
    #[error("{}", schema::newer_sentence(*.0))]
    NewerSchema(u32),
    /// The partition's records are written in this schema now; nothing has changed.
    #[error("the partition's records are written in schema {0}")]
    StaleSchema(u32),
    /// What Redis holds is not what this version writes.
    #[error("Redis holds what this version cannot read: {0}")]
    Unreadable(String),
}

impl StoreError {
    /// The same, of something that consists of several calls, when some of them have been made.
    pub(super) fn half_way(self) -> StoreError {
        match self {
            StoreError::Unavailable(why) => StoreError::Unconfirmed(why),
            other => other,
        }
    }

    /// True when the same call may succeed a little later.
    pub fn is_temporary(&self) -> bool {
        use StoreError as E;
        matches!(self, E::Unavailable(_) | E::Unconfirmed(_) | E::OutOfMemory)
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let detail = error.detail().unwrap_or_default();
        let nth = |at| detail.split(' ').nth(at).and_then(|text| text.parse().ok()).unwrap_or(0);
        let number = || nth(0);
        match error.code().unwrap_or_default() {
            "STALE_EPOCH" => return StoreError::StaleEpoch(number()),
            "STALE_DEFINITION" => return StoreError::StaleDefinition,
            "UNKNOWN_DESTINATION" => return StoreError::UnknownDestination,
            "STALE_CALL" => return StoreError::StaleCall,
            "NOT_OWNER" => return StoreError::NotOwner,
            "OWNED" => return StoreError::Owned { lasts_ms: number(), epoch: nth(1) },
            "QUARANTINE" => return StoreError::Quarantine(number()),
            "WRONG_HEAD" => return StoreError::WrongHead,
            "WRONG_STATE" => return StoreError::WrongState(detail.to_owned()),
            "NEWER_SCHEMA" => return StoreError::NewerSchema(number() as u32),
            "STALE_SCHEMA" => return StoreError::StaleSchema(number() as u32),
            "UNREADABLE" => return StoreError::Unreadable(detail.to_owned()),
            "OOM" => return StoreError::OutOfMemory,
            "NOREPLICAS" | "MISCONF" => return StoreError::Unavailable(error.to_string()),
            _ => {}
        }
        use ServerErrorKind as S;
        match error.kind() {
            // The server answered without having run anything.
            ErrorKind::Server(
                S::BusyLoading | S::ReadOnly | S::MasterDown | S::ClusterDown | S::TryAgain,
            )
            | ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig => StoreError::Unavailable(error.to_string()),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                StoreError::Unavailable(format!("Redis refused the call: {error}"))
            }
            ErrorKind::UnexpectedReturnType => StoreError::Unreadable(error.to_string()),
            _ if error.is_connection_refusal() => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Unconfirmed(error.to_string()),
        }
    }
}
