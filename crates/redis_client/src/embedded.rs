//! The embedded Redis: a private `redis-server` child on a Unix socket in the data directory.
//!
//! Three files there decide who may write. The Reseq process that uses the directory holds `lock`.
//! `redis.lock` is the child's standard input, so the lock on it lasts exactly as long as the child
//! lives, however Reseq ended: two servers never append to the same file. `redis.log` is the
//! child's output. If a child outlives its Reseq (SIGKILL), the next Reseq adopts it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use data_dir::DataDir;
pub use error::EmbeddedError;
use rustix::fs::Mode;

mod binary;
mod clean;
mod data_dir;
mod error;

/// Give up on a server that does not answer at all for this long. A loading server answers
/// (`LOADING`), so a large file may take as long as it needs.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long `stop` waits for each of `SHUTDOWN` and SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How often to check a server that starts or ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a long load is reported.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// How often to check an adopted server: it is not a child, so its end cannot be awaited.
const ADOPTED_LOOK_EVERY: Duration = Duration::from_secs(1);

/// A running `redis-server` that belongs to Reseq. Dropping this leaves the server running for the
/// next start to adopt; only [`stop`](EmbeddedRedis::stop) ends it.
#[derive(Debug)]
pub struct EmbeddedRedis {
    server: Server,
    process_id: u32,
    data_dir: DataDir,
    /// No process is sending any of its messages: none has since the last clean stop, or none will until
    /// the server has ended.
    is_clean: bool,
}

#[derive(Debug)]
enum Server {
    Child(Child),
    Adopted,
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

    /// Adopts the server that still runs in `data_dir`, or starts one, and waits until it has
    /// loaded its data.
    pub async fn start(data_dir: &Path) -> Result<EmbeddedRedis, EmbeddedError> {
        Self::start_from(data_dir, &std::env::var_os("PATH").unwrap_or_default()).await
    }

    /// Like `start`, but looks for the server program in `search_path`.
    pub async fn start_from(
        data_dir: &Path,
        search_path: &OsStr,
    ) -> Result<EmbeddedRedis, EmbeddedError> {
        let data_dir = DataDir::lock(data_dir)?;
        if let Some(process_id) = adopt(&data_dir).await? {
            tracing::info!(
                process_id,
                "adopted the redis-server that an earlier Reseq left running"
            );
            let server = Server::Adopted;
            return Ok(EmbeddedRedis { server, process_id, data_dir, is_clean: false });
        }
        let binary = binary::find(search_path).await?;
        let is_clean = clean::take(&data_dir.dir);
        let mut starting = Starting(Some(spawn(&binary, &data_dir)?));
        let process_id = starting.ready(&data_dir).await?;
        match starting.0.take() {
            Some(child) => {
                let server = Server::Child(child);
                Ok(EmbeddedRedis { server, process_id, data_dir, is_clean })
            }
            None => Err(data_dir.ended("before it was ready")),
        }
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

    /// The process id of the server.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// The server's answer to `INFO all`.
    pub async fn info(&self) -> Result<String, EmbeddedError> {
        let info = self.data_dir.query(redis::cmd("INFO").arg("all").to_owned()).await;
        info.map_err(|error| self.data_dir.unresponsive(&error))
    }

    /// Changes settings of the server (`CONFIG SET`).
    pub async fn configure(&self, settings: &[(&str, String)]) -> redis::RedisResult<()> {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET");
        for (name, value) in settings {
            command.arg(*name).arg(value);
        }
        self.data_dir.query(command).await
    }

    /// Waits until the server ends on its own, and returns the end of its log. May be dropped and
    /// called again.
    pub async fn exited(&mut self) -> EmbeddedError {
        match &mut self.server {
            Server::Child(child) => self.data_dir.ended(&status_text(child.wait().await)),
            Server::Adopted => {
                adopted_end(&self.data_dir, ADOPTED_LOOK_EVERY).await;
                self.data_dir.ended("status unknown: it was adopted")
            }
        }
    }

    /// Stops the server after it has written its append-only file: SHUTDOWN, then SIGTERM. Never
    /// kills it, because its data may not be on disk yet.
    pub async fn stop(mut self) -> Result<(), EmbeddedError> {
        // If the file cannot be written, the stop is not clean.
        let writes = self.info().await.is_ok_and(|info| info.contains("aof_last_write_status:ok"));
        // SHUTDOWN answers by closing the connection, so an error here means nothing.
        let _ = self.data_dir.query::<redis::Value>(redis::cmd("SHUTDOWN").to_owned()).await;
        if !self.ends_within(STOP_MAX).await {
            tracing::warn!(process_id = self.process_id, "SHUTDOWN had no effect; sending SIGTERM");
            let id = i32::try_from(self.process_id).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(id) = id {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            }
            if !self.ends_within(STOP_MAX).await {
                return Err(EmbeddedError::StillRunning { process_id: self.process_id });
            }
        }
        if self.is_clean
            && writes
            && let Err(error) = clean::note(&self.data_dir.dir)
        {
            tracing::warn!(%error, "cannot record the clean stop; the next start has a takeover wait");
        }
        self.data_dir.tidy();
        Ok(())
    }

    async fn ends_within(&mut self, limit: Duration) -> bool {
        match &mut self.server {
            Server::Child(child) => timeout(limit, child.wait()).await.is_ok(),
            Server::Adopted => {
                timeout(limit, adopted_end(&self.data_dir, LOOK_EVERY)).await.is_ok()
            }
        }
    }
}

/// A child that has not served anyone yet. If the start fails, it is killed: all its data is on
/// disk.
struct Starting(Option<Child>);

impl Starting {
    async fn ready(&mut self, data_dir: &DataDir) -> Result<u32, EmbeddedError> {
        let Some(child) = &mut self.0 else { return Err(data_dir.ended("before it was ready")) };
        tokio::select! {
            ready = wait_until_ready(data_dir) => ready,
            status = child.wait() => Err(data_dir.ended(&status_text(status))),
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.start_kill();
        }
    }
}

fn spawn(binary: &Path, data_dir: &DataDir) -> Result<Child, EmbeddedError> {
    let (out, errors) = data_dir.open_log()?;
    let mut command = Command::new(binary);
    command.args(["--port", "0", "--daemonize", "no", "--unixsocketperm", "700"]);
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.args(["--maxmemory-policy", "noeviction"]);
    // Larger sorted sets become skip lists, not scanned lists: leases and busy lanes cost less.
    command.args(["--zset-max-listpack-entries", "32"]);
    command.arg("--dir").arg(&data_dir.dir).arg("--unixsocket").arg(&data_dir.socket);
    command.arg("--logfile").arg(data_dir.log());
    // Errors before it opens its log, such as a refused option, go there too.
    command.stdin(Stdio::from(data_dir.lock_for_server()?)).stdout(out).stderr(errors);
    // Its own process group: Ctrl-C in a terminal must reach only Reseq, which needs Redis while it
    // drains.
    command.process_group(0).kill_on_drop(false);
    data_dir.remove_stale_socket()?;
    // The child inherits it. A file that another thread creates meanwhile gets too few rights, not too many.
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    let spawned = command.spawn();
    rustix::process::umask(before);
    spawned.map_err(|error| EmbeddedError::UnusableBinary {
        binary: binary.into(),
        problem: error.to_string(),
    })
}

/// The process id of the server that an earlier Reseq left running here, once it is ready.
async fn adopt(data_dir: &DataDir) -> Result<Option<u32>, EmbeddedError> {
    if !data_dir.is_served()? && data_dir.ping().await.is_err() {
        return Ok(None);
    }
    let process_id = tokio::select! {
        ready = wait_until_ready(data_dir) => ready?,
        // It was about to end: there is nothing to adopt.
        () = adopted_end(data_dir, LOOK_EVERY) => return Ok(None),
    };
    let unresponsive = |error| data_dir.unresponsive(&error);
    let command = redis::cmd("CONFIG").arg("GET").arg("dir").to_owned();
    let (_, other) = data_dir.query::<(String, Vec<u8>)>(command).await.map_err(unresponsive)?;
    let other = PathBuf::from(OsString::from_vec(other));
    if other != data_dir.dir {
        return Err(EmbeddedError::Foreign { socket: data_dir.socket.clone(), other });
    }
    Ok(Some(process_id))
}

/// Returns when no server uses the directory any more. On a file system without inherited locks the
/// lock looks free at once, so the server must also be silent.
async fn adopted_end(data_dir: &DataDir, look_every: Duration) {
    while data_dir.is_served().unwrap_or(true) || data_dir.ping().await.is_ok() {
        sleep(look_every).await;
    }
}

/// Waits until the server has loaded its data; returns its process id.
async fn wait_until_ready(data_dir: &DataDir) -> Result<u32, EmbeddedError> {
    let mut heard = Instant::now();
    let mut reported = Instant::now();
    loop {
        let info = redis::cmd("INFO").to_owned();
        match data_dir.query::<redis::InfoDict>(info).await {
            Ok(info) if info.get::<u8>("loading") == Some(0) => {
                let process_id = info.get::<u32>("process_id");
                return process_id
                    .ok_or_else(|| data_dir.unresponsive(&"INFO names no process_id"));
            }
            Ok(info) => {
                heard = Instant::now();
                if reported.elapsed() > REPORT_EVERY {
                    reported = heard;
                    let percent = info.get::<String>("loading_loaded_perc").unwrap_or_default();
                    tracing::info!(percent, "the embedded redis-server loads its append-only file");
                }
            }
            Err(error) if heard.elapsed() > SILENCE_MAX => {
                return Err(data_dir.unresponsive(&error));
            }
            Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
}

fn status_text(status: std::io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}
