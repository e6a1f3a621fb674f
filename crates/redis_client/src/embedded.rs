//! The embedded Redis: a private `redis-server` child on a Unix socket in the data directory.
//!
//! The Reseq process that uses the directory holds its file `lock`. The server holds `redis.lock`: the file is its
//! standard input, so it is locked exactly as long as the server lives, however Reseq ended. So two servers never append
//! to the same file. A server that outlived its Reseq (SIGKILL) is stopped by the next start.

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

/// Give up on a starting server that does not answer for this long. A loading server answers (`LOADING`), so a large
/// file may take as long as it needs.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long `stop` waits.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How long a server that an earlier Reseq left may take to write its append-only file and end, before it is killed.
const LEFT_STOP_MAX: Duration = Duration::from_secs(10);
/// How often to check a server that starts or ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why there is no embedded Redis, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EmbeddedError(String);

/// A running `redis-server` that belongs to Reseq. Dropping this leaves the server running until the next start stops
/// it; only [`stop`](EmbeddedRedis::stop) ends it.
#[derive(Debug)]
pub struct EmbeddedRedis {
    child: Child,
    data_dir: DataDir,
    /// It has answered: it may hold data that is not on disk yet.
    is_ready: bool,
    /// No process is sending any of its messages: none has since the last clean stop, or none will until
    /// the server has ended.
    is_clean: bool,
}

impl EmbeddedRedis {
    /// Starts one if no other Redis is configured, and enters its URL in the configuration.
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

    /// Stops the server that still runs in `data_dir`, starts one, and waits until it has loaded its data.
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

    /// True once if the last stop was clean: no sender was active and all data was on disk, so no
    /// takeover wait is needed. The caller is about to send, so it must call `nobody_sends` after
    /// that.
    pub fn take_clean(&mut self) -> bool {
        std::mem::take(&mut self.is_clean)
    }

    /// Declares that no process sends any more, and none will before the server has ended.
    pub fn nobody_sends(&mut self) {
        self.is_clean = true;
    }

    /// Its URL: `unix:///absolute/path`.
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
    /// A server that has not served anyone yet is killed: all its data is on disk.
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
    // Larger sorted sets become skip lists, not scanned lists: leases and busy lanes cost less.
    command.args(["--zset-max-listpack-entries", "32"]);
    command.arg("--dir").arg(&data_dir.dir).arg("--unixsocket").arg(data_dir.socket());
    command.arg("--logfile").arg(data_dir.log()).arg("--pidfile").arg(data_dir.pid_file());
    // Errors before it opens its log, such as a refused option, go there too.
    command.stdout(open_private(&data_dir.log())?).stderr(open_private(&data_dir.log())?);
    let lock = data_dir.server_lock()?.ok_or_else(|| data_dir.stuck(&"it holds redis.lock"))?;
    command.stdin(Stdio::from(lock));
    // Its own process group: Ctrl-C in a terminal must reach only Reseq, which needs Redis while it
    // drains.
    command.process_group(0).kill_on_drop(false);
    // The child inherits it. A file that another thread creates meanwhile gets too few rights, not too many.
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

/// Ends the server that an earlier Reseq left running here, and removes its files. A server that does not stop is
/// killed, which loses no more than a crash of it: the next start has a takeover wait.
async fn end_old_server(data_dir: &DataDir) -> Result<(), EmbeddedError> {
    let begun = Instant::now();
    while data_dir.is_served()? {
        if begun.elapsed() > SILENCE_MAX {
            return Err(data_dir.stuck(&"it does not end"));
        }
        // The server writes the file when it starts, a little after it got the lock.
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
