//! The embedded Redis: a private `redis-server` child on a Unix socket in the data directory.
//!
//! The Reseq process that uses the directory holds its file `lock`. The server holds `redis.lock`: this file is the
//! server's standard input, so it is locked exactly as long as the server lives, however Reseq ended. So two servers
//! never append to the same file. If a server outlived its Reseq (SIGKILL), the next start stops it.

use std::{ffi::OsStr, path::Path, process::Stdio, time::Duration};

use rustix::{
    fs::Mode,
    process::{Pid, Signal, kill_process, umask},
};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use data_dir::{DataDir, open_private};

mod binary;
mod data_dir;

/// Give up on a starting server that does not answer for this long. While the server loads its data it answers
/// `LOADING`, so a large file may take as long as it needs.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long `stop` waits for the server to end.
const STOP_MAX: Duration = Duration::from_secs(20);
/// If an earlier Reseq left a server running, how long that server may take to write its append-only file and end.
/// After that, it is killed.
const LEFT_STOP_MAX: Duration = Duration::from_secs(10);
/// How often to check a server that starts or ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The reason why the embedded Redis cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EmbeddedError(String);

/// A running `redis-server` that belongs to Reseq. Dropping this leaves the server running until the next start stops
/// it; only [`stop`](EmbeddedRedis::stop) ends it.
#[derive(Debug)]
pub struct EmbeddedRedis {
    child: Child,
    data_dir: DataDir,
    /// The server has answered: it may hold data that is not on disk yet.
    is_ready: bool,
    /// No process sends messages of this server: no process has since the last clean stop, or none will until the
    /// server has ended.
    is_clean: bool,
}

impl EmbeddedRedis {
    /// Starts an embedded Redis if no other Redis is configured, and enters its URL in the configuration.
    pub async fn start_if_wanted(
        redis: &mut config::Redis,
    ) -> Result<Option<EmbeddedRedis>, EmbeddedError> {
        if !redis.is_embedded() {
            return Ok(None);
        }
        let embedded = EmbeddedRedis::start(&redis.data_dir).await?;
        redis.url = embedded.url();
        Ok(Some(embedded))
    }

    /// Stops a server that still runs in `data_dir`, starts a new one, and waits until it has loaded its data.
    pub async fn start(data_dir: &Path) -> Result<EmbeddedRedis, EmbeddedError> {
        Self::start_from(data_dir, &std::env::var_os("PATH").unwrap_or_default()).await
    }

    /// Like `start`, but looks for the server program in `search_path`.
    pub async fn start_from(
        data_dir: &Path,
        search_path: &OsStr,
    ) -> Result<EmbeddedRedis, EmbeddedError> {
        let data_dir = DataDir::lock(data_dir)?;
        end_old_server(&data_dir).await?;
        let binary = binary::find(search_path).await?;
        let is_clean = data_dir.take_clean();
        let child = spawn(&binary, &data_dir)?;
        let mut redis = EmbeddedRedis { child, data_dir, is_ready: false, is_clean };
        tokio::select! {
            ready = wait_until_ready(&redis.data_dir) => ready?,
            status = redis.child.wait() => return Err(redis.data_dir.ended(status)),
        }
        redis.is_ready = true;
        Ok(redis)
    }

    /// True once if the last stop was clean: no sender was active and all data was on disk, so no takeover wait is
    /// needed. The caller is about to send messages, so it must call `nobody_sends` when it no longer sends.
    pub fn take_clean(&mut self) -> bool {
        std::mem::take(&mut self.is_clean)
    }

    /// Declares that no process sends messages any more, and that none will before the server has ended.
    pub fn nobody_sends(&mut self) {
        self.is_clean = true;
    }

    /// The URL of the server: `unix:///absolute/path`.
    pub fn url(&self) -> String {
        self.data_dir.url()
    }

    /// The process id of the server; 0 if it has ended.
    pub fn process_id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Runs one command on a new connection.
    pub async fn query<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        self.data_dir.query(words).await
    }

    /// Waits until the server ends on its own, and returns the end of its log. May be dropped and
    /// called again.
    pub async fn exited(&mut self) -> EmbeddedError {
        self.data_dir.ended(self.child.wait().await)
    }

    /// Stops the server after it has written its append-only file. Never kills it, because its data may not be on disk
    /// yet.
    pub async fn stop(mut self) -> Result<(), EmbeddedError> {
        let process_id = self.process_id();
        // If the file cannot be written, the stop is not clean.
        let info = self.query::<String>(&["INFO", "persistence"]).await;
        let writes = info.is_ok_and(|info| info.contains("aof_last_write_status:ok"));
        send_signal(process_id, Signal::TERM);
        if timeout(STOP_MAX, self.child.wait()).await.is_err() {
            return Err(EmbeddedError(format!(
                "the redis-server with process id {process_id} did not stop; end it by hand, with \
                 `kill {process_id}`, or start Reseq again"
            )));
        }
        if self.is_clean && writes {
            self.data_dir.note_clean();
        }
        Ok(())
    }
}

impl Drop for EmbeddedRedis {
    /// Kills a server that is not ready yet: no client has written to it, so nothing is lost. A ready server keeps
    /// running.
    fn drop(&mut self) {
        if !self.is_ready {
            let _ = self.child.start_kill();
        }
    }
}

fn spawn(binary: &Path, data_dir: &DataDir) -> Result<Child, EmbeddedError> {
    let mut command = Command::new(binary);
    command.args(["--port", "0", "--daemonize", "no", "--unixsocketperm", "700"]);
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.args(["--maxmemory-policy", "noeviction"]);
    // Makes Redis store larger sorted sets as skip lists, not as lists that it scans: leases and busy lanes cost
    // less.
    command.args(["--zset-max-listpack-entries", "32"]);
    command.arg("--dir").arg(&data_dir.dir).arg("--unixsocket").arg(data_dir.socket());
    command.arg("--logfile").arg(data_dir.log()).arg("--pidfile").arg(data_dir.pid_file());
    // Errors that the server prints before it opens its log, such as a refused option, go to the log too.
    command.stdout(open_private(&data_dir.log())?).stderr(open_private(&data_dir.log())?);
    let lock = data_dir.server_lock()?.ok_or_else(|| data_dir.stuck(&"it holds redis.lock"))?;
    command.stdin(Stdio::from(lock));
    // A separate process group: Ctrl-C in a terminal must reach only Reseq, which needs Redis while it drains.
    command.process_group(0).kill_on_drop(false);
    // The child inherits the umask. A file that another thread creates meanwhile gets too few rights, not too many.
    let before = umask(Mode::from_raw_mode(0o077));
    let spawned = command.spawn();
    umask(before);
    spawned.map_err(|error| binary::unusable(binary, error))
}

/// Waits until the server has loaded its data.
async fn wait_until_ready(data_dir: &DataDir) -> Result<(), EmbeddedError> {
    let mut heard = Instant::now();
    loop {
        match data_dir.query::<redis::InfoDict>(&["INFO"]).await {
            Ok(info) if info.get::<u8>("loading") == Some(0) => return Ok(()),
            Ok(_) => heard = Instant::now(),
            Err(error) if heard.elapsed() > SILENCE_MAX => return Err(data_dir.stuck(&error)),
            Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Ends the server that an earlier Reseq left running here, and removes its files. Kills a server that does not stop.
/// The kill loses no more data than a crash of the server, and the next start has a takeover wait.
async fn end_old_server(data_dir: &DataDir) -> Result<(), EmbeddedError> {
    let begun = Instant::now();
    while data_dir.is_served()? {
        if begun.elapsed() > SILENCE_MAX {
            return Err(data_dir.stuck(&"it does not end"));
        }
        // The server writes the file when it starts, shortly after it got the lock.
        if let Some(process_id) = data_dir.server_id() {
            let how = if begun.elapsed() < LEFT_STOP_MAX { Signal::TERM } else { Signal::KILL };
            tracing::info!(process_id, ?how, "ending the redis-server that an earlier Reseq left");
            send_signal(process_id, how);
        }
        sleep(10 * LOOK_EVERY).await;
    }
    data_dir.remove_left()
}

fn send_signal(process_id: u32, signal: Signal) {
    if let Some(id) = i32::try_from(process_id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, signal);
    }
}
