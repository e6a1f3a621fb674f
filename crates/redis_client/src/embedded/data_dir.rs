//! The data directory of the embedded Redis: its locks, its socket and its log.

use std::{
    fmt::Display,
    fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use super::EmbeddedError;

/// Some systems limit the path of a Unix socket to 104 bytes, with the final zero.
const SOCKET_PATH_BYTES_MAX: usize = 100;
/// A longer log is renamed to `redis.log.old` at the next start.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// How much of the log goes into an error.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 << 10;
/// Time limit for one query of the server, including the connection.
const QUERY_MAX: Duration = Duration::from_secs(5);

/// A data directory that this Reseq uses alone as long as the value lives.
#[derive(Debug)]
pub(super) struct DataDir {
    /// Absolute, without symbolic links.
    pub(super) dir: PathBuf,
    pub(super) socket: PathBuf,
    client: redis::Client,
    /// Where this start begins in the log.
    log_from: u64,
    /// Held as long as this value lives.
    lock: File,
}

impl DataDir {
    /// Creates the directory if necessary, and takes its lock.
    pub(super) fn lock(data_dir: &Path) -> Result<DataDir, EmbeddedError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data_dir)
            .map_err(|source| unusable(data_dir, source))?;
        let dir = data_dir.canonicalize().map_err(|source| unusable(data_dir, source))?;
        make_private(&dir);
        let lock = open_private(&dir.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(EmbeddedError::InUse { path: dir }),
            Err(TryLockError::Error(source)) => return Err(unusable(&dir.join("lock"), source)),
        }
        let socket = dir.join("redis.sock");
        if socket.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
            return Err(EmbeddedError::LongPath { socket });
        }
        let client = redis::Client::open(url_of(&socket))
            .map_err(|error| unusable(&socket, std::io::Error::other(error.to_string())))?;
        let log = dir.join("redis.log");
        let mut log_from = log.metadata().map_or(0, |file| file.len());
        if log_from > LOG_BYTES_MAX {
            std::fs::rename(&log, dir.join("redis.log.old"))
                .map_err(|source| unusable(&log, source))?;
            log_from = 0;
        }
        Ok(DataDir { dir, socket, client, log_from, lock })
    }

    pub(super) fn url(&self) -> String {
        url_of(&self.socket)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("redis.log")
    }

    /// The log, open twice for the child's standard output and error.
    pub(super) fn open_log(&self) -> Result<(File, File), EmbeddedError> {
        let log = open_private(&self.log())?;
        let again = log.try_clone().map_err(|source| unusable(&self.log(), source))?;
        Ok((log, again))
    }

    /// The lock that a server holds as long as it lives; none while one does.
    pub(super) fn server_lock(&self) -> Result<Option<File>, EmbeddedError> {
        let path = self.dir.join("redis.lock");
        let lock = open_private(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(unusable(&path, source)),
        }
    }

    /// True while a server uses the directory. On a file system without inherited locks the lock looks free at once, so
    /// the server must also be silent.
    pub(super) fn is_served(&self) -> Result<bool, EmbeddedError> {
        let is_free = self.server_lock()?.is_some_and(|lock| lock.unlock().is_ok());
        Ok(!is_free || self.server_id().is_some() && UnixStream::connect(&self.socket).is_ok())
    }

    /// The file to which the server writes its process id.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.dir.join("redis.pid")
    }

    pub(super) fn server_id(&self) -> Option<u32> {
        std::fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    /// Removes the files that a dead server has left: no server could bind to its socket.
    pub(super) fn remove_left(&self) -> Result<(), EmbeddedError> {
        for path in [&self.socket, &self.pid_file()] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(unusable(path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs one command on a new connection.
    pub(super) async fn query<T: redis::FromRedisValue>(
        &self,
        command: redis::Cmd,
    ) -> redis::RedisResult<T> {
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(QUERY_MAX))
            .set_response_timeout(Some(QUERY_MAX));
        let mut connection =
            self.client.get_multiplexed_async_connection_with_config(&config).await?;
        command.query_async(&mut connection).await
    }

    pub(super) fn unresponsive(&self, problem: &dyn Display) -> EmbeddedError {
        EmbeddedError::Unresponsive { path: self.dir.clone(), problem: problem.to_string() }
    }

    /// The error of a server that ended on its own, with the end of its log since this start.
    pub(super) fn ended(&self, status: &str) -> EmbeddedError {
        let log = self.log();
        let tail = log_tail(&log, self.log_from)
            .unwrap_or_else(|error| format!("(the log cannot be read: {error})"));
        EmbeddedError::Ended { status: status.into(), log, tail }
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Closing the file does not unlock it: a child that another thread spawns just now inherits
        // a copy until it executes its program.
        let _ = self.lock.unlock();
    }
}

/// Removes the rights of others to a directory that was there before, and to the files of Redis in it. Where Reseq may
/// not change the directory, as in some volumes of Kubernetes, only new files are private.
fn make_private(dir: &Path) {
    let of_redis = dir.join("appendonlydir");
    let files = std::fs::read_dir(&of_redis).into_iter().flatten().flatten();
    for path in [dir.to_owned(), of_redis].into_iter().chain(files.map(|file| file.path())) {
        let mode = std::fs::symlink_metadata(&path).map_or(0, |found| found.mode() & 0o7777);
        // The sticky bit: the directory is for all, such as /tmp.
        if mode & 0o077 == 0 || mode & 0o1000 != 0 || path.is_symlink() {
            continue;
        }
        let repaired = std::fs::set_permissions(&path, Permissions::from_mode(mode & !0o077));
        let (was, now) = (format!("{mode:o}"), repaired.map(|()| "private"));
        tracing::warn!(?path, was, ?now, "other users had rights here; Reseq takes them away");
    }
}

fn unusable(path: &Path, problem: std::io::Error) -> EmbeddedError {
    EmbeddedError::Directory { path: path.into(), problem }
}

fn open_private(path: &Path) -> Result<File, EmbeddedError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.open(path).map_err(|source| unusable(path, source))
}

/// The URL of a socket, with special characters escaped.
fn url_of(socket: &Path) -> String {
    match url::Url::from_file_path(socket) {
        Ok(url) => format!("unix://{}", url.path()),
        Err(()) => format!("unix://{}", socket.display()),
    }
}

fn log_tail(log: &Path, from: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
}
