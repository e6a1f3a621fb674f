//! The data directory of the embedded Redis: its locks, its socket, its log, and the note of a clean stop.

use std::{
    fmt::Display,
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use super::EmbeddedError;

/// Some systems limit the path of a Unix socket to 104 bytes, with the final zero.
const SOCKET_PATH_BYTES_MAX: usize = 100;
/// If the log is longer, the next start renames it to `redis.log.old`.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// The most lines and bytes of the log that go into an error.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 << 10;
/// Time limit for one query of the server, including the connection.
const QUERY_MAX: Duration = Duration::from_secs(5);
/// The most append-only files that the note of a clean stop names.
const FILES_MAX: usize = 1000;

/// A data directory. Only this Reseq process uses it while the value lives.
#[derive(Debug)]
pub(super) struct DataDir {
    /// Absolute, without symbolic links.
    pub(super) dir: PathBuf,
    /// The length of the log when this start began.
    log_from: u64,
    /// Held as long as this value lives.
    lock: File,
}

impl DataDir {
    /// Creates the directory if necessary, and takes its lock.
    pub(super) fn lock(data_dir: &Path) -> Result<DataDir, EmbeddedError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
        let dir = made.and_then(|()| data_dir.canonicalize());
        let dir = dir.map_err(|error| unusable(data_dir, error))?;
        make_private(&dir);
        let path = dir.join("lock");
        let lock = try_lock(&path)?.ok_or_else(|| {
            EmbeddedError(format!(
                "the data directory {} is in use by another Reseq; stop that one, or set redis.data_dir to another \
                 directory",
                dir.display()
            ))
        })?;
        let mut data_dir = DataDir { dir, log_from: 0, lock };
        let (socket, log) = (data_dir.socket(), data_dir.log());
        if socket.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
            return Err(EmbeddedError(format!(
                "{} is too long for the path of a Unix socket: set redis.data_dir to a directory with a shorter path",
                socket.display()
            )));
        }
        data_dir.log_from = log.metadata().map_or(0, |file| file.len());
        if data_dir.log_from > LOG_BYTES_MAX {
            fs::rename(&log, data_dir.dir.join("redis.log.old"))
                .map_err(|error| unusable(&log, error))?;
            data_dir.log_from = 0;
        }
        Ok(data_dir)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }

    /// The URL of the socket, with special characters escaped.
    pub(super) fn url(&self) -> String {
        let escaped = url::Url::from_file_path(self.socket());
        let path = escaped.map(|url| url.path().to_owned());
        format!("unix://{}", path.unwrap_or_else(|()| self.socket().display().to_string()))
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("redis.log")
    }

    /// Runs one command on a new connection.
    pub(super) async fn query<T: redis::FromRedisValue>(
        &self,
        words: &[&str],
    ) -> redis::RedisResult<T> {
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(QUERY_MAX))
            .set_response_timeout(Some(QUERY_MAX));
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::Cmd::new().arg(words).query_async(&mut connection).await
    }

    /// The lock that a server holds as long as it lives; `None` while a server holds it.
    pub(super) fn server_lock(&self) -> Result<Option<File>, EmbeddedError> {
        try_lock(&self.dir.join("redis.lock"))
    }

    /// True while a server uses the directory. On a file system where a child does not inherit locks, the lock is
    /// free although the server runs. So the function also checks that no server listens on the socket.
    pub(super) fn is_served(&self) -> Result<bool, EmbeddedError> {
        let is_free = self.server_lock()?.is_some_and(|lock| lock.unlock().is_ok());
        Ok(!is_free || self.server_id().is_some() && UnixStream::connect(self.socket()).is_ok())
    }

    /// The file to which the server writes its process id.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.dir.join("redis.pid")
    }

    pub(super) fn server_id(&self) -> Option<u32> {
        fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    /// Removes the files that a dead server has left. While they exist, no server can bind to the socket.
    pub(super) fn remove_left(&self) -> Result<(), EmbeddedError> {
        for path in [self.socket(), self.pid_file()] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != ErrorKind::NotFound
            {
                return Err(unusable(&path, error));
            }
        }
        Ok(())
    }

    fn note(&self) -> PathBuf {
        self.dir.join("stopped-cleanly")
    }

    /// Writes the note of a clean stop: the server has ended with all data on disk, and no process sends messages.
    /// The next start then needs no takeover wait.
    pub(super) fn note_clean(&self) {
        let noted = self.fingerprint().and_then(|files| {
            fs::write(self.note(), files)?;
            File::open(self.note())?.sync_all()?;
            File::open(&self.dir)?.sync_all()
        });
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot note the clean stop: the next start has a takeover wait");
        }
    }

    /// True if the data is as the last clean stop left it. Removes the note from the disk, so that no note remains if
    /// Reseq crashes.
    pub(super) fn take_clean(&self) -> bool {
        let Ok(noted) = fs::read_to_string(self.note()) else { return false };
        let is_same = self.fingerprint().is_ok_and(|files| files == noted);
        let removed = fs::remove_file(self.note()).and_then(|()| File::open(&self.dir)?.sync_all());
        is_same && removed.is_ok()
    }

    /// Identifies the append-only files by inode, size and change time. A copy, such as a backup, has other inodes,
    /// and programs cannot set change times.
    fn fingerprint(&self) -> io::Result<String> {
        let files = fs::read_dir(self.dir.join("appendonlydir"))?.take(FILES_MAX);
        let files = files.map(|file| {
            let found = file?.metadata()?;
            Ok((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
        });
        let mut files = files.collect::<io::Result<Vec<_>>>()?;
        files.sort_unstable();
        Ok(format!("{files:?}"))
    }

    /// The error for a server that is alive but does not respond as it should.
    pub(super) fn stuck(&self, problem: &dyn Display) -> EmbeddedError {
        EmbeddedError(format!(
            "the redis-server of {} does not answer ({problem}); read redis.log there, end that process if it hangs, \
             and start Reseq again",
            self.dir.display()
        ))
    }

    /// The error for a server that ended on its own, with the end of its log since this start.
    pub(super) fn ended(&self, status: io::Result<ExitStatus>) -> EmbeddedError {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let tail = self.log_tail().unwrap_or_else(|error| format!("(cannot be read: {error})"));
        EmbeddedError(format!(
            "the embedded redis-server ended by itself ({status}); the end of {}:\n{tail}",
            self.log().display()
        ))
    }

    fn log_tail(&self) -> io::Result<String> {
        let mut file = File::open(self.log())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(self.log_from.max(length.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Closing the file does not unlock it: a child that another thread spawns just now inherits
        // a copy until it executes its program.
        let _ = self.lock.unlock();
    }
}

/// Removes the rights of other users to an existing directory, and to the files of Redis in it. If Reseq may not
/// change the directory, as in some volumes of Kubernetes, only new files are private.
fn make_private(dir: &Path) {
    let of_redis = dir.join("appendonlydir");
    let files = fs::read_dir(&of_redis).into_iter().flatten().flatten();
    for path in [dir.to_owned(), of_redis].into_iter().chain(files.map(|file| file.path())) {
        let mode = fs::symlink_metadata(&path).map_or(0, |found| found.mode() & 0o7777);
        // With the sticky bit, the directory is for all users, such as /tmp.
        if mode & 0o077 == 0 || mode & 0o1000 != 0 || path.is_symlink() {
            continue;
        }
        let repaired = fs::set_permissions(&path, Permissions::from_mode(mode & !0o077));
        let (was, now) = (format!("{mode:o}"), repaired.map(|()| "private"));
        tracing::warn!(?path, was, ?now, "other users had rights here; Reseq takes them away");
    }
}

fn unusable(path: &Path, problem: io::Error) -> EmbeddedError {
    EmbeddedError(format!(
        "{} cannot be used: {problem}; set redis.data_dir to a directory that Reseq may write to",
        path.display()
    ))
}

pub(super) fn open_private(path: &Path) -> Result<File, EmbeddedError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.open(path).map_err(|error| unusable(path, error))
}

/// Opens and locks the file; `None` while another process holds the lock.
fn try_lock(path: &Path) -> Result<Option<File>, EmbeddedError> {
    let file = open_private(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(path, error)),
    }
}
