//! Real Redis servers for tests, on a Unix socket or a TCP port. Several of them make a
//! [`TestSentinel`](super::sentinel::TestSentinel) or a [`TestCluster`].

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{certificates::Authority, ports::free_port, preload::Clock, wait::eventually};

#[allow(unused_imports)]
pub use super::cluster::TestCluster;

/// The password of the user `svc` ([`TestRedis::acl`]). It must not occur in logs or answers.
pub const PASSWORD: &str = "open-sesame-17";
/// A server or cluster that is not ready within this time fails the test.
pub const READY_MAX: Duration = Duration::from_secs(30);
/// The time between two checks for an awaited state.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The most lines of a log to show when a test fails.
const LOG_LINES_MAX: usize = 40;
/// The configuration file, in the directory of a server that may rewrite it.
const FILE: &str = "redis.conf";

/// A private `redis-server` with an append-only file, in its own directory, killed on drop. Tasks
/// may share it, because faults occur during the load.
pub struct TestRedis {
    url: String,
    /// For the connections of the test itself.
    tls: Option<redis::TlsCertificates>,
    args: Vec<String>,
    child: Mutex<Child>,
    frozen: AtomicBool,
    dir: TempDir,
}

impl TestRedis {
    /// Starts a server on a Unix socket and waits until it answers.
    pub async fn start() -> TestRedis {
        TestRedis::start_with(&[]).await
    }

    /// Like `start`, with extra arguments, such as `["--maxmemory", "4mb"]`.
    pub async fn start_with(extra_args: &[&str]) -> TestRedis {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("redis.sock").to_str().unwrap().to_owned();
        let url = format!("unix://{socket}");
        let mut args = vec!["--port", "0", "--unixsocket", &socket];
        args.extend(extra_args);
        TestRedis::launch(url, &args, dir, None).await
    }

    /// Like `start`, with a clock that can be moved.
    pub async fn start_with_clock() -> TestRedis {
        let redis = TestRedis::start().await;
        redis.give_clock().await;
        redis
    }

    /// Restarts it with a clock that can be moved.
    pub async fn give_clock(&self) {
        self.clock().make();
        self.kill_and_restart().await;
    }

    /// Its clock, if it can be moved.
    pub fn clock(&self) -> Clock {
        Clock::in_dir(self.dir.path())
    }

    /// Starts a server on a free loopback TCP port.
    pub async fn start_on_tcp(extra_args: &[&str]) -> TestRedis {
        TestRedis::start_with_file(None, extra_args).await
    }

    /// Like `start_on_tcp`, only over TLS. The server has a certificate of this authority, and
    /// requires one from its clients.
    pub async fn start_over_tls(authority: &Authority) -> TestRedis {
        TestRedis::start_at(None, &[], Some(authority)).await
    }

    /// Like `start_on_tcp`, with a configuration file that the server may rewrite: it keeps its
    /// role, such as replica, after a restart.
    pub async fn start_with_file(file: Option<&str>, extra_args: &[&str]) -> TestRedis {
        TestRedis::start_at(file, extra_args, None).await
    }

    /// Like `start_with_file`, over TLS if there is an authority.
    pub async fn start_at(
        file: Option<&str>,
        extra_args: &[&str],
        tls: Option<&Authority>,
    ) -> TestRedis {
        let (port, dir) = (free_port().to_string(), tempfile::tempdir().unwrap());
        if let Some(text) = file {
            std::fs::write(dir.path().join(FILE), text).unwrap();
        }
        let mut args = vec!["--bind", "127.0.0.1"];
        let of_tls = tls.map(|authority| args_of_tls(authority, &port));
        match &of_tls {
            Some(of_tls) => args.extend(of_tls.iter().map(String::as_str)),
            None => args.extend(["--port", &port]),
        }
        args.extend(extra_args);
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        TestRedis::launch(format!("{scheme}://127.0.0.1:{port}"), &args, dir, tls).await
    }

    async fn launch(
        url: String,
        args: &[&str],
        dir: TempDir,
        tls: Option<&Authority>,
    ) -> TestRedis {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = Mutex::new(spawn(&args, dir.path()));
        let tls = tls.map(certificates_of);
        let server = TestRedis { url, tls, args, child, frozen: AtomicBool::new(false), dir };
        server.wait_until_ready().await.expect("redis-server starts");
        server
    }

    /// Its URL, which stays the same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id, which changes with a restart.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Its TCP port, which stays the same after a restart.
    pub fn port(&self) -> u16 {
        let port = self.url.rsplit(':').next().and_then(|port| port.parse().ok());
        port.expect("it was started on TCP")
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A new connection to it without a short time limit for commands.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.url, &self.tls).await.expect("the test's redis-server answers")
    }

    /// Sets the rules of the user `svc`, whose password is [`PASSWORD`]; creates the user if
    /// necessary.
    pub async fn acl(&self, rules: &[&str]) {
        let password = format!(">{PASSWORD}");
        let words = [&["ACL", "SETUSER", "svc", "on", &password], rules].concat();
        self.ask::<()>(&words).await.unwrap();
    }

    /// A connection as the user `svc`.
    pub async fn connection_as_svc(&self) -> MultiplexedConnection {
        let mut connection = self.connection().await;
        let auth = redis::cmd("AUTH").arg("svc").arg(PASSWORD).exec_async(&mut connection).await;
        auth.unwrap();
        connection
    }

    /// Its URL with the name and the password of the user `svc`.
    pub fn url_as_svc(&self) -> String {
        as_svc(&self.url)
    }

    /// Runs one command on a new connection.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut connection = connect(&self.url, &self.tls).await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    /// A field of `INFO`; empty if there is none.
    pub async fn info(&self, field: &str) -> String {
        let info: String = self.ask(&["INFO", "everything"]).await.unwrap_or_default();
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| *name == field).map_or(String::new(), |(_, value)| value.to_owned())
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("redis.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) {
        let mut child = self.child();
        // The system cannot reuse the id until `wait` has reaped the child.
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Suspends it. Connections stay open, but it does not answer.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
        self.signal(Signal::STOP);
    }

    /// Resumes it after [`freeze`](TestRedis::freeze).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
        self.frozen.store(false, Ordering::Relaxed);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child();
        let id = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// True unless it was killed and not restarted.
    pub fn is_running(&self) -> bool {
        self.child().try_wait().unwrap().is_none()
    }

    /// True if it can answer: neither killed nor frozen.
    pub fn is_answering(&self) -> bool {
        self.is_running() && !self.frozen.load(Ordering::Relaxed)
    }

    /// Starts it again after [`kill`](TestRedis::kill), with its append-only file.
    pub async fn restart(&self) {
        assert!(!self.is_running(), "restart() is for a server that was killed");
        *self.child() = spawn(&self.args, self.dir.path());
        self.frozen.store(false, Ordering::Relaxed);
        self.wait_until_ready().await.expect("redis-server starts again");
    }

    /// Waits until the append-only file has all confirmed writes. With `appendfsync everysec` and
    /// a slow disk, Redis confirms writes before it writes them to the file.
    pub async fn written(&self) {
        eventually("everything is written", async || match self.info("aof_buffer_length").await {
            length if length.is_empty() || length == "0" => Ok(()),
            length => Err(format!("{length} bytes are not")),
        })
        .await;
    }

    /// Kills it with SIGKILL and starts it again. It still has all confirmed writes.
    pub async fn kill_and_restart(&self) {
        self.written().await;
        self.kill();
        self.restart().await;
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READY_MAX;
        while let Err(problem) = ping(&self.url, &self.tls).await {
            let ended = self.child().try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.dir.path().join("redis.log"));
                return Err(format!("{problem} ({ended:?})\n{}", log.unwrap_or_default()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// A server's URL with the name and the password of the user `svc`.
pub fn as_svc(url: &str) -> String {
    match url.strip_prefix("redis://") {
        Some(rest) => format!("redis://svc:{PASSWORD}@{rest}"),
        None => format!("{url}?user=svc&pass={PASSWORD}"),
    }
}

/// The rules in the documentation for Reseq's own user.
pub fn minimal_rules() -> Vec<String> {
    let page = "docs/reference/redis-requirements.md";
    let text = std::fs::read_to_string(super::source::root().join(page)).unwrap();
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("ACL SETUSER reseq "));
    let line = lines.next().expect("the page has the rules in a line");
    let rules = line.split(' ').filter(|rule| rule.starts_with(['~', '&', '+']));
    rules.map(str::to_owned).collect()
}

/// True if the pods of all tests must have exactly those rules (`make test-rights`).
pub fn is_minimal() -> bool {
    std::env::var_os("RESEQ_TEST_MINIMAL_RIGHTS").is_some()
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        // SIGKILL also ends a frozen process.
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(args: &[String], dir: &Path) -> Child {
    let mut command = Command::new(server_binary());
    if dir.join(FILE).exists() {
        command.arg(dir.join(FILE));
    }
    command.args(["--daemonize", "no", "--logfile", "redis.log"]);
    if !args.iter().any(|arg| arg == "--sentinel") {
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
        command.args(["--enable-debug-command", "yes"]);
    }
    if is_minimal() && !args.iter().any(|arg| arg == "--sentinel" || arg == "--cluster-enabled") {
        // Rights that only some deployments need.
        let more = ["+wait", "+config|get"].map(str::to_owned);
        let password = format!(">{PASSWORD}");
        command.args(["--user", "svc", "on", &password]).args(minimal_rules()).args(more);
    }
    command.arg("--dir").arg(dir).args(args).envs(Clock::in_dir(dir).environment());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("redis-server is installed (make setup)")
}

/// The arguments of a server that uses only TLS, even to other servers.
fn args_of_tls(authority: &Authority, port: &str) -> Vec<String> {
    let identity = authority.issue("redis");
    let shown = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let args = [
        ["--port", "0"].map(str::to_owned),
        ["--tls-port".to_owned(), port.to_owned()],
        ["--tls-cert-file".to_owned(), shown(identity.certificate)],
        ["--tls-key-file".to_owned(), shown(identity.key)],
        ["--tls-ca-cert-file".to_owned(), shown(authority.ca_file())],
        ["--tls-auth-clients", "yes"].map(str::to_owned),
        ["--tls-replication", "yes"].map(str::to_owned),
        ["--tls-cluster", "yes"].map(str::to_owned),
    ];
    args.concat()
}

/// The certificates for a client of such a server.
fn certificates_of(authority: &Authority) -> redis::TlsCertificates {
    let identity = authority.issue("test");
    redis::TlsCertificates {
        client_tls: Some(redis::ClientTlsConfig {
            client_cert: std::fs::read(identity.certificate).unwrap(),
            client_key: std::fs::read(identity.key).unwrap(),
        }),
        root_cert: Some(authority.pem().into_bytes()),
    }
}

/// `redis-server`, or the program in RESEQ_TEST_REDIS_SERVER (`make test-newer`).
pub fn server_binary() -> String {
    std::env::var("RESEQ_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// A new connection to a server without TLS.
pub async fn connection_to(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    connect(url, &None).await
}

async fn connect(
    url: &str,
    tls: &Option<redis::TlsCertificates>,
) -> redis::RedisResult<MultiplexedConnection> {
    // With the client's default of half a second, tests would fail on a slow machine.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(READY_MAX))
        .set_response_timeout(Some(READY_MAX));
    let client = match tls {
        Some(tls) => redis::Client::build_with_tls(url, tls.clone())?,
        None => redis::Client::open(url)?,
    };
    client.get_multiplexed_async_connection_with_config(&config).await
}

async fn ping(url: &str, tls: &Option<redis::TlsCertificates>) -> Result<(), String> {
    let mut connection = connect(url, tls).await.map_err(|error| error.to_string())?;
    let pong = redis::cmd("PING").exec_async(&mut connection).await;
    pong.map_err(|error| error.to_string())
}
