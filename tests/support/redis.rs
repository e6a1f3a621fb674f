//! Real Redis servers for tests: one on a Unix socket, or a cluster of three masters.

use std::{
    net::TcpListener,
    ops::RangeInclusive,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// A server or cluster that is not ready by then fails the test.
const READY_MAX: Duration = Duration::from_secs(30);
/// How often the state that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A port noted as free can be taken before the server binds it, so that a start is repeated.
const STARTS_MAX: usize = 5;
/// The slots of each master of a [`TestCluster`].
const SLOTS: [RangeInclusive<u16>; 3] = [0..=5460, 5461..=10922, 10923..=16383];

/// A private `redis-server` with its append-only file on, in a directory of its own. It ends when
/// this is dropped.
pub struct TestRedis {
    url: String,
    args: Vec<String>,
    child: Child,
    dir: TempDir,
}

impl TestRedis {
    /// Starts one on a Unix socket and waits until it answers.
    pub async fn start() -> TestRedis {
        TestRedis::start_with(&[]).await
    }

    /// The same with extra arguments, such as `["--maxmemory", "4mb"]`.
    pub async fn start_with(extra_args: &[&str]) -> TestRedis {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("redis.sock").to_str().unwrap().to_owned();
        let url = format!("unix://{socket}");
        let mut args = vec!["--port", "0", "--unixsocket", &socket];
        args.extend(extra_args);
        TestRedis::launch(url, &args, dir).await.expect("redis-server starts")
    }

    /// Starts one on a free TCP port of the loopback.
    pub async fn start_on_tcp(extra_args: &[&str]) -> TestRedis {
        for _ in 0..STARTS_MAX {
            let port = free_port().to_string();
            let mut args = vec!["--bind", "127.0.0.1", "--port", &port];
            args.extend(extra_args);
            let url = format!("redis://127.0.0.1:{port}");
            if let Ok(server) = TestRedis::launch(url, &args, tempfile::tempdir().unwrap()).await {
                return server;
            }
        }
        panic!("no redis-server started on a free port in {STARTS_MAX} attempts");
    }

    async fn launch(url: String, args: &[&str], dir: TempDir) -> Result<TestRedis, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(&args, dir.path());
        let mut server = TestRedis { url, args, child, dir };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// Where it listens. The same after a restart.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id. Another one after a restart.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it keeps its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A new connection to it, whose commands may take as long as a test needs.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.url).await.expect("the test's redis-server answers")
    }

    /// Ends it with SIGKILL, at once.
    pub fn kill(&mut self) {
        // `Child` keeps the id from being used again until `wait` has collected it.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`kill`](TestRedis::kill), on what its append-only file holds.
    pub async fn restart(&mut self) {
        let is_running = self.child.try_wait().unwrap().is_none();
        assert!(!is_running, "restart() is for a server that was killed");
        self.child = spawn(&self.args, self.dir.path());
        self.wait_until_ready().await.expect("redis-server starts again");
    }

    /// Ends it with SIGKILL and starts it again.
    pub async fn kill_and_restart(&mut self) {
        self.kill();
        self.restart().await;
    }

    async fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY_MAX;
        while let Err(problem) = ping(&self.url).await {
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.dir.path().join("redis.log"));
                return Err(format!("{problem} ({ended:?})\n{}", log.unwrap_or_default()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Redis Cluster of three masters without replicas, on free ports of the loopback.
pub struct TestCluster {
    /// In the order of [`urls`](TestCluster::urls); each can be killed and restarted.
    pub nodes: Vec<TestRedis>,
}

impl TestCluster {
    /// Starts the masters, gives each a third of the slots, and waits until all three agree.
    pub async fn start() -> TestCluster {
        let mut nodes = Vec::new();
        let mut bus_ports = Vec::new();
        for _ in SLOTS {
            // The default bus port is the port + 10000, which a high port does not leave room for.
            let (node, bus_port) = start_node().await;
            nodes.push(node);
            bus_ports.push(bus_port);
        }
        let cluster = TestCluster { nodes };
        cluster.join(&bus_ports).await;
        cluster.wait_until_ok().await;
        cluster
    }

    /// Where the masters listen.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url.clone()).collect()
    }

    /// The master that serves a slot.
    pub fn node_for_slot(&self, slot: u16) -> &TestRedis {
        let index = SLOTS.iter().position(|slots| slots.contains(&slot));
        &self.nodes[index.expect("a slot is below 16384")]
    }

    /// Waits until every master sees all slots served by three known nodes.
    pub async fn wait_until_ok(&self) {
        let deadline = Instant::now() + READY_MAX;
        for node in &self.nodes {
            loop {
                let info = cluster_info(node).await;
                let wanted =
                    ["cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"];
                if wanted.iter().all(|line| info.lines().any(|found| found == *line)) {
                    break;
                }
                assert!(Instant::now() < deadline, "{} is not ok:\n{info}", node.url);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    async fn join(&self, bus_ports: &[u16]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let mut connection = node.connection().await;
            let mut run = async |args: &[String]| {
                let done = redis::cmd("CLUSTER").arg(args).exec_async(&mut connection).await;
                done.unwrap_or_else(|error| panic!("CLUSTER {args:?}: {error}"));
            };
            // Nodes that start with the same epoch would have to settle it among themselves.
            run(&["SET-CONFIG-EPOCH".into(), (index + 1).to_string()]).await;
            let (first, last) = (SLOTS[index].start(), SLOTS[index].end());
            run(&["ADDSLOTSRANGE".into(), first.to_string(), last.to_string()]).await;
            for (other, bus_port) in self.nodes.iter().zip(bus_ports).skip(index + 1) {
                let (host, port) = other.url["redis://".len()..].split_once(':').unwrap();
                let meet = ["MEET".into(), host.into(), port.into(), bus_port.to_string()];
                run(&meet).await;
            }
        }
    }
}

async fn start_node() -> (TestRedis, u16) {
    let bus_port = free_port();
    let bus_text = bus_port.to_string();
    let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port"];
    let args = [&args[..], &[bus_text.as_str()]].concat();
    (TestRedis::start_on_tcp(&args).await, bus_port)
}

async fn cluster_info(node: &TestRedis) -> String {
    let mut connection = node.connection().await;
    let info = redis::cmd("CLUSTER").arg("INFO").query_async(&mut connection).await;
    info.unwrap_or_else(|error| error.to_string())
}

fn spawn(args: &[String], dir: &Path) -> Child {
    let mut command = Command::new(server_binary());
    command.args(["--daemonize", "no", "--appendonly", "yes", "--appendfsync", "everysec"]);
    command.args(["--save", "", "--enable-debug-command", "yes", "--logfile", "redis.log"]);
    command.arg("--dir").arg(dir).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("redis-server is installed (make setup)")
}

/// `redis-server`, or the one that RESEQ_TEST_REDIS_SERVER names (`make test-newer-servers`).
pub fn server_binary() -> String {
    std::env::var("RESEQ_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // A response time-out would turn a slow machine into a failure of the test.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(READY_MAX))
        .set_response_timeout(Some(READY_MAX));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

async fn ping(url: &str) -> Result<(), String> {
    let mut connection = connect(url).await.map_err(|error| error.to_string())?;
    let pong = redis::cmd("PING").exec_async(&mut connection).await;
    pong.map_err(|error| error.to_string())
}

/// A port that nobody listens on at this moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
