//! Maps the errors of Redis and of scripts, in one place.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::schema;
use crate::domain::Epoch;

/// Why a call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis may have lost data since the caller read the epoch; this is the current one.
    #[error("the epoch of the partition is now {0}")]
    StaleEpoch(Epoch),
    /// The pod's definition of the destination is outdated.
    #[error("the destination's definition has changed")]
    StaleDefinition,
    /// The destination does not exist, or is being removed.
    #[error("there is no such destination")]
    UnknownDestination,
    /// The caller has since made another call; this one changed nothing.
    #[error("the call came too late: its caller has made another since")]
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
    TakeoverWait(u64),
    /// The message is not its lane's head.
    #[error("the message is not the head of its lane")]
    WrongHead,
    /// The destination's state does not allow the call; the text says why.
    #[error("{0}")]
    WrongState(String),
    /// Redis did not accept the call; nothing has changed.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// The call was sent but not answered: it may have run, or may still run.
    #[error("Redis did not confirm the call: {0}")]
    Unconfirmed(String),
    /// The deployment cannot give the requested durability; the text says what to change. Nothing
    /// has changed.
    #[error("{0}")]
    CannotConfirm(String),
    /// The Redis user may not do what the call needs. Names the missing ACL rule. Nothing has
    /// changed.
    #[error("the Redis user lacks a right: {0}")]
    NoRights(String),
    /// Redis could not run the call, and a repeat would fail too: a key has another type, or a
    /// script met unexpected data. Part of the call may have run.
    #[error("Redis could not carry out the call: {0}")]
    Failed(String),
    /// Redis refuses calls that need more memory; nothing has changed.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// The data belongs to a newer version of Reseq; nothing has changed.
    #[error("{}", schema::newer_sentence(*.0))]
    NewerSchema(u32),
    /// The partition now uses this schema for records; nothing has changed.
    #[error("the partition's records are written in schema {0}")]
    StaleSchema(u32),
    /// The data in Redis is not what this version writes.
    #[error("Redis holds what this version cannot read: {0}")]
    Unreadable(String),
}

impl StoreError {
    /// Converts the error of one call into that of a sequence of calls, some of which have run.
    pub(super) fn half_way(self) -> StoreError {
        match self {
            StoreError::Unavailable(why) => StoreError::Unconfirmed(why),
            error @ StoreError::NoRights(_) => StoreError::Unconfirmed(error.to_string()),
            other => other,
        }
    }

    /// True when the script did not run in this attempt, so the error says nothing about an earlier
    /// attempt at the same call.
    pub(super) fn is_of_this_attempt(&self) -> bool {
        matches!(self, StoreError::NoRights(_) | StoreError::CannotConfirm(_))
    }

    /// True when the store itself logs and shows the error, so the caller need not.
    pub fn is_told(&self) -> bool {
        use StoreError as E;
        matches!(self, E::NoRights(_) | E::Failed(_) | E::NewerSchema(_))
    }

    /// True if damaged data of one destination is the cause: others are not affected.
    pub fn is_damage(&self) -> bool {
        use StoreError as E;
        matches!(self, E::Failed(_) | E::Unreadable(_))
    }

    /// True when the same call may succeed a little later.
    pub fn is_temporary(&self) -> bool {
        use StoreError as E;
        matches!(self, E::Unavailable(_) | E::Unconfirmed(_) | E::OutOfMemory)
    }
}

/// Stands in place of an ACL rule when Redis does not accept the user or the password.
const UNKNOWN_USER: &str = "Redis does not accept the name or the password of redis.url";

/// True if the error occurred inside a script: earlier commands of the script have run.
fn is_of_script(detail: &str) -> bool {
    detail.contains("script: ") || detail.contains("ACL failure in script")
}

/// The ACL rule that would grant what this error message refuses.
fn rule_of(detail: &str) -> String {
    let command = detail.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
    match command {
        Some((command, _)) => format!("+{command}"),
        None if detail.contains("keys") => "~ its keys".to_owned(),
        None if detail.contains("channel") => "& its channels".to_owned(),
        None => detail.to_owned(),
    }
}

/// The first error of a pipeline, as only that has a code and a text; other errors unchanged.
fn first_of(error: RedisError) -> RedisError {
    let errors = error.clone().into_server_errors();
    let first = errors.as_deref().and_then(<[_]>::first);
    first.map_or(error, |(_, first)| RedisError::from(first.clone()))
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let error = first_of(error);
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
            "TAKEOVER_WAIT" => return StoreError::TakeoverWait(number()),
            "WRONG_HEAD" => return StoreError::WrongHead,
            "WRONG_STATE" => return StoreError::WrongState(detail.to_owned()),
            "NEWER_SCHEMA" => return StoreError::NewerSchema(number() as u32),
            "STALE_SCHEMA" => return StoreError::StaleSchema(number() as u32),
            "UNREADABLE" => return StoreError::Unreadable(detail.to_owned()),
            "OOM" => return StoreError::OutOfMemory,
            "NO_RIGHTS" => return StoreError::NoRights(detail.to_owned()),
            "NOPERM" if !is_of_script(detail) => return StoreError::NoRights(rule_of(detail)),
            "NOAUTH" | "WRONGPASS" => return StoreError::NoRights(UNKNOWN_USER.to_owned()),
            // The server answers so before it runs anything. `BUSY` is about another call's script.
            "NOREPLICAS" | "MISCONF" | "BUSY" => return StoreError::Unavailable(error.to_string()),
            "ERR" if detail.starts_with("max number of clients") => {
                return StoreError::Unavailable(error.to_string());
            }
            _ => {}
        }
        use ServerErrorKind as S;
        match error.kind() {
            // The server refused before it ran anything.
            ErrorKind::Server(
                S::BusyLoading
                | S::ReadOnly
                | S::MasterDown
                | S::ClusterDown
                | S::TryAgain
                | S::Moved
                | S::Ask
                | S::NoScript,
            )
            | ErrorKind::InvalidClientConfig => StoreError::Unavailable(error.to_string()),
            ErrorKind::AuthenticationFailed => StoreError::NoRights(UNKNOWN_USER.to_owned()),
            // WRONGTYPE, a Lua error, or an unknown error: it may have occurred after a write.
            ErrorKind::Server(_) | ErrorKind::Extension => StoreError::Failed(error.to_string()),
            ErrorKind::UnexpectedReturnType => StoreError::Unreadable(error.to_string()),
            // Includes `Parse`: the answer is not in Redis's protocol, so the call may have run.
            // Answers with unexpected content are mapped elsewhere (`ask`).
            _ if error.is_connection_refusal() => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Unconfirmed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    /// What a server's answer is mapped to.
    fn mapped(code: &str, detail: &str) -> StoreError {
        let text = format!("-{code} {detail}\r\n");
        match redis::parse_redis_value(text.as_bytes()).unwrap() {
            Value::ServerError(error) => StoreError::from(RedisError::from(error)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_may_come_after_a_write_is_never_called_unchanged() {
        use StoreError as E;
        let of_script =
            "ACL failure in script: User svc has no permissions to run the 'zadd' command";
        for (code, detail) in [
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value"),
            ("ERR", "user_script:1: attempt to index a nil value script: 5b, on @user_script:1."),
            ("ERR", "The user executing the script can't run this command script: 5b, on @x:1."),
            ("NOPERM", of_script),
            ("EXECABORT", "Transaction discarded"),
            ("SOMETHING", "new"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(error, E::Failed(_)), "{code} {detail}: {error:?}");
            assert!(!error.is_temporary());
        }
    }

    #[test]
    fn an_answer_in_another_protocol_says_nothing_of_the_call_and_one_with_another_content_is_damage()
     {
        let error = redis::parse_redis_value(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
        let error = StoreError::from(error);
        assert!(matches!(error, StoreError::Unconfirmed(_)) && error.is_temporary(), "{error:?}");
        let answer = redis::parse_redis_value(b"$4\r\nmany\r\n").unwrap();
        let error = crate::store::ask::fitting::<u64>(answer).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable(_)) && !error.is_temporary(), "{error:?}");
    }

    #[test]
    fn a_missing_right_is_named_by_its_rule() {
        for (code, detail, rule) in [
            ("NO_RIGHTS", "+hset", "+hset"),
            ("NOPERM", "this user has no permissions to run the 'evalsha' command", "+evalsha"),
            (
                "NOPERM",
                "User svc has no permissions to run the 'config|get' command",
                "+config|get",
            ),
            ("NOPERM", "No permissions to access one of the keys", "~ its keys"),
            ("NOPERM", "this user has no permissions to access one of the channels used", "& its"),
            ("WRONGPASS", "invalid username-password pair or user is disabled.", "redis.url"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(&error, StoreError::NoRights(_)), "{code} {detail}: {error:?}");
            assert!(error.to_string().contains(rule) && !error.is_temporary(), "{error}");
        }
    }

    #[test]
    fn what_a_server_says_before_it_runs_anything_may_be_asked_again() {
        for (code, detail) in [
            ("BUSY", "Redis is busy running a script."),
            ("ERR", "max number of clients reached"),
            ("MISCONF", "Errors writing to the AOF file"),
            ("LOADING", "Redis is loading the dataset in memory"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(error, StoreError::Unavailable(_)), "{code} {detail}: {error:?}");
        }
    }
}
