//! Errors of the embedded Redis.

use std::path::PathBuf;

/// Why there is no embedded Redis, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No server program was found.
    #[error(
        "neither redis-server nor valkey-server is on the PATH or beside this program; install one (on Debian: \
         `apt-get install redis-server`), or set redis.url to a Redis that already runs"
    )]
    MissingBinary,
    /// The server program is too old.
    #[error(
        "{binary} is version {found}; Reseq needs 7.0 or newer: install a newer one, or set \
         redis.url to a Redis that already runs"
    )]
    OldVersion {
        /// Which program.
        binary: PathBuf,
        /// Its version.
        found: String,
    },
    /// The server program did not run, or did not report its version.
    #[error("{binary} cannot be used: {problem}; reinstall it, or set redis.url")]
    UnusableBinary {
        /// Which program.
        binary: PathBuf,
        /// The cause.
        problem: String,
    },
    /// A file or directory could not be created, read or locked.
    #[error(
        "{path} cannot be used: {problem}; set redis.data_dir to a directory that Reseq may write to"
    )]
    Directory {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        problem: std::io::Error,
    },
    /// Another Reseq uses the directory.
    #[error(
        "the data directory {path} is in use by another Reseq; stop that one, or set \
         redis.data_dir to another directory"
    )]
    InUse {
        /// Which directory.
        path: PathBuf,
    },
    /// No system could open a socket with this path.
    #[error(
        "{socket} is too long for the path of a Unix socket: set redis.data_dir to a directory with a \
         shorter path"
    )]
    LongPath {
        /// The socket.
        socket: PathBuf,
    },
    /// The server runs but does not answer.
    #[error(
        "the redis-server of {path} does not answer ({problem}); read redis.log there, end that \
         process if it hangs, and start Reseq again"
    )]
    Unresponsive {
        /// Its data directory.
        path: PathBuf,
        /// The last failure.
        problem: String,
    },
    /// The server ended on its own.
    #[error("the embedded redis-server ended by itself ({status}); the end of {log}:\n{tail}")]
    Ended {
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// The server was asked to stop and did not.
    #[error(
        "the redis-server with process id {process_id} did not stop; end it by hand, with \
         `kill {process_id}`, or start Reseq again"
    )]
    StillRunning {
        /// Its process id.
        process_id: u32,
    },
}
