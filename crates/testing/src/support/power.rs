//! A Redis whose power can be cut: afterwards, its files contain only what had been synced to
//! disk. `kill -9` cannot show that, because written data survives in the page cache.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::{
    preload::compile,
    redis::{connection_to, server_binary},
    wait::eventually,
};

/// The effect of a power cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// When the server ended.
    pub at: Instant,
    /// Bytes that had been written but not synced.
    pub bytes: u64,
}

/// A private `redis-server` on a Unix socket, killed on drop.
pub struct PoweredRedis {
    url: String,
    appendfsync: &'static str,
    dir: TempDir,
    child: Child,
    /// The length of each file when the server started, by inode: this part is safe.
    at_start: HashMap<u64, u64>,
}

impl PoweredRedis {
    /// Starts a server with this `appendfsync`, and waits until it answers.
    pub async fn start(appendfsync: &'static str) -> PoweredRedis {
        let dir = tempfile::tempdir().unwrap();
        compile("fsynced", &dir.path().join("fsynced.so"));
        let url = format!("unix://{}", dir.path().join("redis.sock").display());
        // A placeholder until the first start; this child ends at once.
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let mut redis = PoweredRedis { url, appendfsync, dir, child, at_start: HashMap::new() };
        redis.launch().await;
        redis
    }

    /// Its URL, which stays the same after a cut.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new connection to it.
    pub async fn connection(&self) -> MultiplexedConnection {
        connection_to(&self.url).await.unwrap()
    }

    /// True if `WAITAOF` exists and answers only after a sync: Redis 7.2, or 8.0 and later.
    pub async fn waits_for_sync(&self) -> bool {
        let mut connection = self.connection().await;
        let info: redis::InfoDict = redis::cmd("INFO").query_async(&mut connection).await.unwrap();
        let version: String = info.get("redis_version").expect("a server has a version");
        let is_valkey = info.get::<String>("valkey_version").is_some();
        !is_valkey && !version.starts_with("7.0.") && !version.starts_with("7.4.")
    }

    /// Cuts the power: kills the server, and truncates each file to its last sync; a file that was
    /// never synced becomes empty.
    pub fn cut(&mut self) -> Cut {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let at = Instant::now();
        let synced = self.lengths_synced();
        let mut lost = 0;
        for (path, inode, length) in self.files() {
            let kept = synced.get(&inode).copied().unwrap_or(0);
            if kept < length {
                lost += length - kept;
                fs::OpenOptions::new().write(true).open(path).unwrap().set_len(kept).unwrap();
            }
        }
        Cut { at, bytes: lost }
    }

    /// Starts it again after [`cut`](PoweredRedis::cut), with the content of its files.
    pub async fn restart(&mut self) {
        self.launch().await;
    }

    /// Waits until all data written so far is on disk.
    pub async fn synced(&self) {
        let written = self.files();
        eventually("what was written is synced", async || {
            let synced = self.lengths_synced();
            let is_synced = |(_, inode, length): &(PathBuf, u64, u64)| {
                synced.get(inode).is_some_and(|kept| kept >= length)
            };
            if written.iter().all(is_synced) { Ok(()) } else { Err(format!("{synced:?}")) }
        })
        .await;
    }

    /// The length of each file at its last sync, by inode.
    fn lengths_synced(&self) -> HashMap<u64, u64> {
        let mut synced = self.at_start.clone();
        let lines = fs::read_to_string(self.notes()).unwrap_or_default();
        // Skip a line that is still being written: it has no end.
        for line in lines.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let (inode, bytes) = line.split_once(' ').expect("a note has two numbers");
            synced.insert(inode.parse().unwrap(), bytes.parse().unwrap());
        }
        synced
    }

    async fn launch(&mut self) {
        self.at_start = self.files().into_iter().map(|(_, inode, bytes)| (inode, bytes)).collect();
        let _ = fs::remove_file(self.notes());
        let socket = self.dir.path().join("redis.sock");
        let mut command = Command::new(server_binary());
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--unixsocket"]);
        command.arg(socket).args(["--appendfsync", self.appendfsync, "--logfile", "redis.log"]);
        command.arg("--dir").arg(self.dir.path());
        command.env("LD_PRELOAD", self.dir.path().join("fsynced.so")).env("FSYNCED", self.notes());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = command.spawn().expect("redis-server is installed (make setup)");
        eventually("redis-server answers", async || {
            let log = || fs::read_to_string(self.dir.path().join("redis.log")).unwrap_or_default();
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server ended: {ended:?}\n{}", log());
            let mut connection =
                connection_to(&self.url).await.map_err(|error| error.to_string())?;
            let pong = redis::cmd("PING").exec_async(&mut connection).await;
            pong.map_err(|error| error.to_string())
        })
        .await;
    }

    fn notes(&self) -> PathBuf {
        self.dir.path().join("fsynced")
    }

    /// The files of the append-only directory: path, inode, length.
    fn files(&self) -> Vec<(PathBuf, u64, u64)> {
        let Ok(entries) = fs::read_dir(self.dir.path().join("appendonlydir")) else {
            return Vec::new();
        };
        let of = |entry: fs::DirEntry| {
            let found = entry.metadata().unwrap();
            (entry.path(), found.ino(), found.len())
        };
        entries.map(|entry| of(entry.unwrap())).collect()
    }
}

impl Drop for PoweredRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
