//! Errors of calls to Redis. Each kind says whether the call has run, and whether a repeat can succeed.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// Why a call to Redis did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// Redis did not accept the call; nothing has changed.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// Redis did not answer the call: it may have run, or may still run.
    #[error("Redis did not confirm the call: {0}")]
    Unconfirmed(String),
    /// The Redis user lacks a right for the call. Names the missing ACL rule. Nothing has changed.
    #[error("the Redis user lacks a right: {0}")]
    NoRights(String),
    /// The Redis user lacks a right that a script needs, but Redis noticed only while the script ran. Names the
    /// missing ACL rule. Part of the call may have run.
    #[error("the Redis user lost a right during the call: {0}")]
    LostRights(String),
    /// Redis answers, but refuses all writes; nothing has changed. Contains the error message of Redis.
    #[error("Redis refuses writes: {0}")]
    RefusesWrites(String),
    /// Redis refuses calls that would use more memory; nothing has changed.
    #[error("Redis has no memory left")]
    OutOfMemory,
    /// A script returned an error with its own code, which is not a code of the server.
    #[error("{text}")]
    Named {
        /// The first word of the error: its code.
        code: String,
        /// The text after the first word.
        detail: String,
        /// The whole error, for a log.
        text: String,
    },
    /// Redis could not run the call, and a repeat would fail too: for example, a key has the wrong type, or a script
    /// read unexpected data. Part of the call may have run.
    #[error("Redis could not carry out the call: {0}")]
    Failed(String),
    /// The answer does not have the documented shape.
    #[error("Redis holds data that this version cannot read: {0}")]
    Unreadable(String),
}

/// Stands in place of an ACL rule when Redis does not accept the user or the password.
pub(super) const UNKNOWN_USER: &str = "Redis does not accept the name or the password of redis.url";

/// True if a connection with this error must not be used again.
pub(super) fn is_broken(error: &RedisError) -> bool {
    use ServerErrorKind as S;
    error.is_unrecoverable_error()
        || error.is_io_error()
        // The server is no longer the primary, or may not be: reconnect to find the current one.
        || matches!(
            error.kind(),
            ErrorKind::Server(S::ReadOnly | S::BusyLoading | S::MasterDown)
        )
        || matches!(error.code(), Some("NOREPLICAS" | "UNBLOCKED"))
}

/// The error if the answer of this command does not have the documented shape.
pub fn unexpected(what: &str) -> ClientError {
    ClientError::Unreadable(format!("the answer of {what} does not have the documented shape"))
}

/// True if the error occurred inside a script: earlier commands of the script have run.
fn is_of_script(detail: &str) -> bool {
    detail.contains("script: ") || detail.contains("ACL failure in script")
}

/// The ACL rule that the Redis user needs, from the message of a refusal.
fn rule_of(detail: &str) -> String {
    let command = detail.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
    match command {
        Some((command, _)) => format!("+{command}"),
        None if detail.contains("keys") => "~ its keys".to_owned(),
        None if detail.contains("channel") => "& its channels".to_owned(),
        None => detail.to_owned(),
    }
}

/// The first error inside a failed pipeline, because the error of the pipeline itself has no code
/// and no text. Returns other errors unchanged.
fn first_of(error: RedisError) -> RedisError {
    let errors = error.clone().into_server_errors();
    let first = errors.as_deref().and_then(<[_]>::first);
    first.map_or(error, |(_, first)| RedisError::from(first.clone()))
}

impl ClientError {
    /// The error of a block (`Blocks`), from the text that a script returned or raised. Earlier
    /// commands of the block have run, unless the script named the error itself.
    pub(super) fn of_block(text: &str) -> ClientError {
        let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
        let is_code = !code.is_empty() && code.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
        match code {
            "OOM" => ClientError::OutOfMemory,
            "NOPERM" => ClientError::LostRights(rule_of(detail)),
            "ERR" | "WRONGTYPE" => ClientError::Failed(text.to_owned()),
            _ if is_code => ClientError::Named {
                code: code.to_owned(),
                detail: detail.to_owned(),
                text: text.to_owned(),
            },
            _ => ClientError::Failed(text.to_owned()),
        }
    }
}

impl From<RedisError> for ClientError {
    fn from(error: RedisError) -> Self {
        let error = first_of(error);
        let detail = error.detail().unwrap_or_default();
        match error.code().unwrap_or_default() {
            "OOM" => return ClientError::OutOfMemory,
            "NOPERM" if is_of_script(detail) => return ClientError::LostRights(rule_of(detail)),
            "NOPERM" => return ClientError::NoRights(rule_of(detail)),
            "NOAUTH" | "WRONGPASS" => return ClientError::NoRights(UNKNOWN_USER.to_owned()),
            // The connection sent a long command without a password.
            "ERR" if detail.starts_with("Protocol error: unauthenticated") => {
                return ClientError::NoRights(UNKNOWN_USER.to_owned());
            }
            // `BUSY`: the server still runs the script of another call, and did not run this one.
            // If the server refused a command inside a script, the script may have written before.
            code @ ("NOREPLICAS" | "MISCONF" | "BUSY" | "READONLY") => {
                return match is_of_script(detail) {
                    true => ClientError::Failed(error.to_string()),
                    false => ClientError::RefusesWrites(format!("{code} {detail}")),
                };
            }
            "ERR" if detail.starts_with("max number of clients") => {
                return ClientError::Unavailable(error.to_string());
            }
            _ => {}
        }
        use ServerErrorKind as S;
        match error.kind() {
            // The server refused the call before it ran anything.
            ErrorKind::Server(
                S::BusyLoading
                | S::MasterDown
                | S::ClusterDown
                | S::TryAgain
                | S::Moved
                | S::Ask
                | S::NoScript,
            )
            | ErrorKind::InvalidClientConfig => ClientError::Unavailable(error.to_string()),
            ErrorKind::AuthenticationFailed => ClientError::NoRights(UNKNOWN_USER.to_owned()),
            // WRONGTYPE or an error of Lua may have occurred after a write.
            ErrorKind::Server(_) => ClientError::Failed(error.to_string()),
            ErrorKind::Extension if error.code() == Some("WRONGTYPE") => {
                ClientError::Failed(error.to_string())
            }
            ErrorKind::Extension => ClientError::Named {
                code: error.code().unwrap_or_default().to_owned(),
                detail: detail.to_owned(),
                text: error.to_string(),
            },
            ErrorKind::UnexpectedReturnType => ClientError::Unreadable(error.to_string()),
            // Includes `Parse`: the answer is not in the protocol of Redis, and the call may have run.
            // (`fitting` handles an answer in the protocol that has an unexpected type.)
            _ if error.is_connection_refusal() => ClientError::Unavailable(error.to_string()),
            _ => ClientError::Unconfirmed(error.to_string()),
        }
    }
}

/// Converts an answer. If the answer has an unexpected type, the error is `Unreadable`. Without this, the client
/// library reports a parse error, as for an answer outside the protocol, and that becomes `Unconfirmed`.
pub(super) fn fitting<T: redis::FromRedisValue>(answer: Value) -> Result<T, ClientError> {
    redis::from_redis_value(answer).map_err(|error| ClientError::Unreadable(error.to_string()))
}
#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;
    use crate::dial::unreached;

    fn of_server(code: &str, detail: &str) -> RedisError {
        let text = format!("-{code} {detail}\r\n");
        match redis::parse_redis_value(text.as_bytes()).unwrap() {
            Value::ServerError(error) => RedisError::from(error),
            other => panic!("{other:?}"),
        }
    }

    /// The error for a server's answer.
    fn mapped(code: &str, detail: &str) -> ClientError {
        ClientError::from(of_server(code, detail))
    }

    #[test]
    fn what_may_come_after_a_write_is_never_called_unchanged() {
        use ClientError as E;
        for (code, detail) in [
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value"),
            ("ERR", "user_script:1: attempt to index a nil value script: 5b, on @user_script:1."),
            ("ERR", "The user executing the script can't run this command script: 5b, on @x:1."),
            ("MISCONF", "Errors writing to the AOF file script: 5b, on @x:1."),
            ("EXECABORT", "Transaction discarded"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(error, E::Failed(_)), "{code} {detail}: {error:?}");
        }
    }

    #[test]
    fn what_only_a_script_says_is_passed_on_by_its_name() {
        let error = mapped("STALE_EPOCH", "7");
        let ClientError::Named { code, detail, .. } = &error else { panic!("{error:?}") };
        assert_eq!((code.as_str(), detail.as_str()), ("STALE_EPOCH", "7"));
    }

    #[test]
    fn other_protocol_is_unconfirmed_and_other_content_is_damage() {
        let error = redis::parse_redis_value(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
        let error = ClientError::from(error);
        assert!(matches!(error, ClientError::Unconfirmed(_)), "{error:?}");
        let answer = redis::parse_redis_value(b"$4\r\nmany\r\n").unwrap();
        let error = fitting::<u64>(answer).unwrap_err();
        assert!(matches!(error, ClientError::Unreadable(_)), "{error:?}");
    }

    #[test]
    fn a_missing_right_is_named_by_its_rule() {
        for (code, detail, rule) in [
            ("NOPERM", "this user has no permissions to run the 'evalsha' command", "+evalsha"),
            (
                "NOPERM",
                "User svc has no permissions to run the 'config|get' command",
                "+config|get",
            ),
            ("NOPERM", "No permissions to access one of the keys", "~ its keys"),
            ("NOPERM", "this user has no permissions to access one of the channels used", "& its"),
            ("WRONGPASS", "invalid username-password pair or user is disabled.", "redis.url"),
            ("ERR", "Protocol error: unauthenticated multibulk length", "redis.url"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(&error, ClientError::NoRights(_)), "{code} {detail}: {error:?}");
            assert!(error.to_string().contains(rule), "{error}");
        }
    }

    #[test]
    fn right_missing_inside_a_script_is_named() {
        let detail = "ACL failure in script: User svc has no permissions to run the 'zadd' command";
        for error in [mapped("NOPERM", detail), ClientError::of_block(&format!("NOPERM {detail}"))]
        {
            assert!(
                matches!(&error, ClientError::LostRights(rule) if rule == "+zadd"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn call_refused_before_it_ran_may_be_asked_again() {
        for (code, detail) in [
            ("ERR", "max number of clients reached"),
            ("LOADING", "Redis is loading the dataset in memory"),
        ] {
            let error = mapped(code, detail);
            assert!(matches!(error, ClientError::Unavailable(_)), "{code} {detail}: {error:?}");
        }
    }

    #[test]
    fn a_refusal_of_all_writes_keeps_the_sentence_of_redis() {
        for (code, detail) in [
            ("BUSY", "Redis is busy running a script."),
            ("MISCONF", "Errors writing to the AOF file"),
            ("NOREPLICAS", "Not enough good replicas to write."),
            ("READONLY", "You can't write against a read only replica."),
        ] {
            let error = mapped(code, detail);
            let ClientError::RefusesWrites(sentence) = &error else { panic!("{error:?}") };
            assert_eq!(*sentence, format!("{code} {detail}"));
            // The error stays the same at the start of a connection.
            let begun = unreached(of_server(code, detail));
            assert!(matches!(begun, ClientError::RefusesWrites(_)), "{begun:?}");
        }
    }
}
