//! Maps the errors of Redis and of scripts, in one place.

use std::fmt;

use super::known_schema;
use domain::Epoch;
use redis_client::ClientError;

/// Why a call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis may have lost data since the caller read the epoch. Contains the current epoch.
    #[error("the epoch of the partition is now {0}")]
    StaleEpoch(Epoch),
    /// The pod's definition of the destination is outdated.
    #[error("the destination's definition has changed")]
    StaleDefinition,
    /// The destination does not exist, or is being removed.
    #[error("there is no such destination")]
    UnknownDestination,
    /// The caller has made another call since; this call changed nothing.
    #[error("the call came too late: its caller has made another since")]
    StaleCall,
    /// The call came after the time until which it could run, or the clock of Redis has stepped. Nothing has changed.
    /// Contains the time of Redis, in ms since 1970.
    #[error("the call came too late")]
    LateCall(u64),
    /// The caller does not own the partition (any more).
    #[error("another sender owns the partition")]
    NotOwner,
    /// Another sender owns the partition. Contains the partition's epoch.
    #[error("another sender owns the partition, in epoch {0}")]
    Owned(Epoch),
    /// Releases wait until an owner that Redis forgot must have stopped: at most this many milliseconds.
    #[error("releases wait for up to {0} ms after a restart of Redis")]
    TakeoverWait(u64),
    /// The destination is being removed; nothing has changed.
    #[error("the destination is being removed; try again later")]
    BeingRemoved,
    /// The message is not its lane's head.
    #[error("the message is not the head of its lane")]
    WrongHead,
    /// The destination's state does not allow the call; the text says why.
    #[error("{0}")]
    WrongState(String),
    /// The version of the definition is not the one that the caller expected. Contains the current version; 0: the
    /// destination does not exist.
    #[error("the definition has changed meanwhile")]
    WrongVersion(u64),
    /// The deployment has this many tokens, which is the maximum.
    #[error("there are {0} tokens, and there may be no more")]
    TooManyTokens(u64),
    /// Redis did not accept the call; nothing has changed.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// Redis answers, but refuses all writes; nothing has changed. Contains the error message of Redis.
    #[error("Redis refuses writes: {0}")]
    RefusesWrites(String),
    /// The call was sent but not answered: it may have run, or may still run.
    #[error("Redis did not confirm the call: {0}")]
    Unconfirmed(String),
    /// The deployment cannot provide the requested durability; the text says what to change. Nothing has changed.
    #[error("{0}")]
    CannotConfirm(String),
    /// The Redis user lacks a right for the call. Names the missing ACL rule. Nothing has changed.
    #[error("the Redis user lacks a right: {0}")]
    NoRights(String),
    /// The Redis user lacks a right that a script needs, but Redis noticed only while the script ran. Names the
    /// missing ACL rule. Part of the call may have run.
    #[error("the Redis user lost a right during the call: {0}")]
    LostRights(String),
    /// A key of the destination has the wrong type. The destination waits until somebody repairs it; nothing has
    /// changed.
    #[error("{0}")]
    WrongType(WrongType),
    /// Redis could not run the call, and a repeat would fail too: for example, a script read unexpected data. Part of
    /// the call may have run.
    #[error("Redis could not carry out the call: {0}")]
    Failed(String),
    /// Redis refuses calls that need more memory; nothing has changed.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// The data belongs to a newer version of Reseq; nothing has changed.
    #[error("{}", known_schema::newer_sentence(*.0))]
    NewerSchema(u32),
    /// The partition now uses this schema for records; nothing has changed.
    #[error("the partition's records are written in schema {0}")]
    StaleSchema(u32),
    /// The fast path cannot handle the call; nothing has changed. The store calls the full script.
    #[error("the fast path does not suffice")]
    NotFast,
    /// The secrets of a definition are encrypted with a key that this process does not have. Contains the id of the
    /// key. Nothing has changed.
    #[error(
        "the secrets of the destination are encrypted with the key {0}, which secrets.key does not have"
    )]
    NoSecretsKey(String),
    /// The data in Redis does not have the form that this version writes.
    #[error("Redis holds data that this version cannot read: {0}")]
    Unreadable(String),
}

/// A key whose type in Redis differs from the type that Reseq gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongType {
    /// The key.
    pub key: String,
    /// The type that the key has.
    pub found: String,
    /// The type that the key should have.
    pub expected: String,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongType { key, found, expected } = self;
        write!(
            f,
            "the Redis key {key} has the type {found} instead of {expected}, and the destination waits: restore the \
             key, or run reseq repair"
        )
    }
}

impl WrongType {
    /// Parses `<type> <right type> <key>`.
    fn read(detail: &str) -> Option<WrongType> {
        let mut words = detail.splitn(3, ' ').map(str::to_owned);
        let (found, expected, key) = (words.next()?, words.next()?, words.next()?);
        Some(WrongType { key, found, expected })
    }
}

impl StoreError {
    /// Converts the error of one call into the error of a sequence of calls, some of which have already run.
    pub(super) fn after_partial_success(self) -> StoreError {
        match self {
            StoreError::Unavailable(why) => StoreError::Unconfirmed(why),
            error @ (StoreError::NoRights(_) | StoreError::RefusesWrites(_)) => {
                StoreError::Unconfirmed(error.to_string())
            }
            StoreError::WrongType(wrong) => StoreError::Failed(wrong.to_string()),
            other => other,
        }
    }

    /// True if the script did not run in this attempt. Then the error does not tell whether an earlier attempt at the
    /// same call has run.
    pub(super) fn did_not_run(&self) -> bool {
        use StoreError as E;
        matches!(self, E::NoRights(_) | E::CannotConfirm(_) | E::WrongType(_))
    }

    /// True if the store itself logs and shows the error, so that the caller does not have to.
    pub fn is_logged(&self) -> bool {
        use StoreError as E;
        matches!(
            self,
            E::NoRights(_)
                | E::LostRights(_)
                | E::RefusesWrites(_)
                | E::WrongType(_)
                | E::Failed(_)
                | E::NewerSchema(_)
        )
    }

    /// True if the cause is damaged data of one destination: other destinations are not affected.
    pub fn is_damage(&self) -> bool {
        use StoreError as E;
        matches!(self, E::WrongType(_) | E::Failed(_) | E::Unreadable(_))
    }

    /// True if the same call may succeed a little later.
    pub fn is_temporary(&self) -> bool {
        use StoreError as E;
        matches!(
            self,
            E::Unavailable(_)
                | E::RefusesWrites(_)
                | E::Unconfirmed(_)
                | E::OutOfMemory
                | E::LateCall(_)
        )
    }
}

impl From<ClientError> for StoreError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unavailable(why) => StoreError::Unavailable(why),
            ClientError::Unconfirmed(why) => StoreError::Unconfirmed(why),
            ClientError::RefusesWrites(sentence) => StoreError::RefusesWrites(sentence),
            ClientError::NoRights(rule) => StoreError::NoRights(rule),
            ClientError::LostRights(rule) => StoreError::LostRights(rule),
            ClientError::OutOfMemory => StoreError::OutOfMemory,
            ClientError::Failed(why) => StoreError::Failed(why),
            ClientError::Unreadable(what) => StoreError::Unreadable(what),
            ClientError::Named { code, detail, text } => named(&code, detail, text),
        }
    }
}

/// Maps an error that a script returned with its own code (`redis.error_reply` in `lua/`).
fn named(code: &str, detail: String, text: String) -> StoreError {
    let number = || detail.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    match code {
        "STALE_EPOCH" => StoreError::StaleEpoch(number()),
        "STALE_DEFINITION" => StoreError::StaleDefinition,
        "UNKNOWN_DESTINATION" => StoreError::UnknownDestination,
        "BEING_REMOVED" => StoreError::BeingRemoved,
        "STALE_CALL" => StoreError::StaleCall,
        "LATE_CALL" => StoreError::LateCall(number()),
        "NOT_OWNER" => StoreError::NotOwner,
        "OWNED" => StoreError::Owned(number()),
        "TAKEOVER_WAIT" => StoreError::TakeoverWait(number()),
        "WRONG_HEAD" => StoreError::WrongHead,
        "WRONG_TYPE" => {
            WrongType::read(&detail).map_or(StoreError::Failed(text), StoreError::WrongType)
        }
        "WRONG_STATE" => StoreError::WrongState(detail),
        "WRONG_VERSION" => StoreError::WrongVersion(number()),
        "NEWER_SCHEMA" => StoreError::NewerSchema(number() as u32),
        "STALE_SCHEMA" => StoreError::StaleSchema(number() as u32),
        "NOT_FAST" => StoreError::NotFast,
        "TOO_MANY_TOKENS" => StoreError::TooManyTokens(number()),
        "UNREADABLE" => StoreError::Unreadable(detail),
        "NO_MEMORY" => StoreError::OutOfMemory,
        // This version does not know the code. The script may have written data before the error.
        _ => StoreError::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an error of this name becomes.
    fn mapped(code: &str, detail: &str) -> StoreError {
        let (code, detail) = (code.to_owned(), detail.to_owned());
        let text = format!("{code}: {detail}");
        ClientError::Named { code, detail, text }.into()
    }

    #[test]
    fn a_name_that_nobody_knows_is_never_called_unchanged() {
        let error = mapped("SOMETHING", "new");
        assert!(matches!(error, StoreError::Failed(_)) && !error.is_temporary(), "{error:?}");
    }

    #[test]
    fn wrong_type_names_the_key_and_both_types() {
        let error = mapped("WRONG_TYPE", "string zset reseq:{p00}:d:erp:ready:a b");
        let StoreError::WrongType(WrongType { key, found, expected }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((found.as_str(), expected.as_str()), ("string", "zset"));
        assert_eq!(key, "reseq:{p00}:d:erp:ready:a b");
        assert!(error.did_not_run() && !error.is_temporary());
    }

    #[test]
    fn error_is_temporary_only_if_a_repeat_may_succeed() {
        for (error, temporary) in [
            (ClientError::Unavailable("x".into()), true),
            (ClientError::Unconfirmed("x".into()), true),
            (ClientError::RefusesWrites("x".into()), true),
            (ClientError::OutOfMemory, true),
            (ClientError::NoRights("x".into()), false),
            (ClientError::LostRights("x".into()), false),
            (ClientError::Failed("x".into()), false),
            (ClientError::Unreadable("x".into()), false),
        ] {
            let text = format!("{error:?}");
            assert_eq!(StoreError::from(error).is_temporary(), temporary, "{text}");
        }
    }

    #[test]
    fn numbers_behind_a_name_are_read() {
        assert!(matches!(mapped("STALE_EPOCH", "7"), StoreError::StaleEpoch(7)));
        let owned = mapped("OWNED", "7");
        assert!(matches!(owned, StoreError::Owned(7)), "{owned:?}");
    }
}
