//! Detects a server that refuses all writes: it has too few replicas or a disk error, is a replica, or runs a slow
//! script.

use redis::{Cmd, aio::MultiplexedConnection};

use super::{client::RedisClient, error::ClientError};

/// A script that does nothing, but whose flags say that it may write. Redis checks the flags before it runs the
/// script.
const NO_OPERATION: &str = "#!lua flags=allow-oom\nreturn 1";

/// Like `NO_OPERATION`, but the flags also say that the script may need memory.
const NO_OPERATION_WITH_MEMORY: &str = "#!lua\nreturn 1";

fn no_operation() -> Cmd {
    let mut call = redis::cmd("EVAL");
    call.arg(NO_OPERATION).arg(0);
    call
}

fn sentence<T>(answer: Result<T, ClientError>) -> Option<String> {
    match answer {
        Err(ClientError::RefusesWrites(sentence)) => Some(sentence),
        _ => None,
    }
}

/// Asks the server whether it refuses writes. `None` if it accepts writes, or if the answer does not tell.
pub async fn refusal_of_writes(connection: &mut MultiplexedConnection) -> Option<String> {
    sentence(no_operation().exec_async(connection).await.map_err(ClientError::from))
}

/// Asks the server whether its memory is full. A full server refuses scripts that may need more memory.
pub async fn is_full(connection: &mut MultiplexedConnection) -> bool {
    let mut call = redis::cmd("EVAL");
    call.arg(NO_OPERATION_WITH_MEMORY).arg(0);
    let answer = call.exec_async(connection).await.map_err(ClientError::from);
    matches!(answer, Err(ClientError::OutOfMemory))
}

impl RedisClient {
    /// Asks the server that holds this key whether it refuses writes.
    pub async fn refusal_at(&self, key: &str) -> Option<String> {
        let mut pipe = redis::pipe();
        pipe.add_command(no_operation());
        sentence(self.query_at::<()>(key.as_bytes(), &pipe).await)
    }
}
