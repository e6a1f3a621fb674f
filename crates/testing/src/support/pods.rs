//! Real `reseq serve` processes.

use std::{
    fs::OpenOptions,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    certificates::Identity,
    ports::free_address,
    redis::{as_svc, is_minimal},
    source::program,
    tls::{Party, Relay},
    wait::{eventually, within},
};

/// The most lines of a log to show when a test fails.
const LOG_LINES_MAX: usize = 60;

/// The settings of all pods of a deployment.
#[derive(Debug, Clone)]
pub struct Settings {
    pub redis_url: String,
    pub partitions: u16,
    pub processor_lease_ms: u64,
    pub sender_lease_ms: u64,
    pub shutdown_ms: u64,
    /// Additional lines for these sections.
    pub http: String,
    pub redis: String,
    pub ingest: String,
    pub outgoing: String,
    /// `[[destination]]` sections.
    pub destinations: String,
    /// If set, pods listen only over TLS: the certificates of the pods' listeners, and of
    /// clients. Tests still use plain addresses: a relay speaks TLS.
    pub tls: Option<(Party, Party)>,
    /// TCP listeners of ingest pods: destination and framing, followed by `json` if a frame is an
    /// envelope.
    pub tcp: Vec<(&'static str, &'static str)>,
    /// The most file descriptors of a pod.
    pub descriptors: Option<u32>,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// Settings without destinations. Senders have the default lease, so that a slow machine
    /// causes no repeats. Processors have a short lease.
    pub fn new(redis_url: &str) -> Settings {
        Settings {
            redis_url: redis_url.to_owned(),
            partitions: 64,
            processor_lease_ms: 1500,
            sender_lease_ms: 5000,
            shutdown_ms: 15_000,
            http: String::new(),
            redis: String::new(),
            ingest: String::new(),
            outgoing: "allow = [\"127.0.0.0/8\"]".to_owned(),
            destinations: String::new(),
            tls: None,
            tcp: Vec::new(),
            descriptors: None,
            environment: Vec::new(),
        }
    }

    /// Adds a destination, with fields as in the configuration file, without its name.
    pub fn destination(mut self, name: &str, fields: &str) -> Settings {
        self.destinations += &format!("[[destination]]\nname = \"{name}\"\n{fields}\n");
        self
    }

    fn text(&self, http: SocketAddr, tcp: &[SocketAddr]) -> String {
        let Settings { partitions, processor_lease_ms, sender_lease_ms, .. } = self;
        let is_one =
            ["redis://127.0.0.1:", "unix://"].iter().any(|of| self.redis_url.starts_with(of));
        let redis_url = match is_one && is_minimal() && !self.redis_url.contains("svc") {
            true => as_svc(&self.redis_url),
            false => self.redis_url.clone(),
        };
        let listener = self.tls.as_ref().map_or_else(String::new, |(pod, _)| {
            let Identity { certificate, key } = &pod.identity;
            format!(
                "tls = {{ certificate_file = {certificate:?}, key_file = {key:?}, client_ca_file = {:?} }}\n",
                pod.ca_file
            )
        });
        let mut text = format!(
            "shutdown_ms = {}\n[http]\nlisten = \"{http}\"\n{listener}{}\n\
             [redis]\nurl = \"{redis_url}\"\npartitions = {partitions}\n{}\n[ingest]\n{}\n\
             [outgoing]\n{}\n[processor]\nlease_ms = {processor_lease_ms}\n[sender]\nlease_ms = {sender_lease_ms}\n{}",
            self.shutdown_ms, self.http, self.redis, self.ingest, self.outgoing, self.destinations,
        );
        for ((destination, framing), address) in self.tcp.iter().zip(tcp) {
            let (framing, envelope) = framing.split_once(' ').unwrap_or((framing, "none"));
            text += &format!(
                "[[tcp]]\nlisten = \"{address}\"\ndestination = \"{destination}\"\n\
                 framing = \"{framing}\"\nenvelope = \"{envelope}\"\n{listener}"
            );
        }
        text
    }
}

/// The addresses of a pod, which change with a restart.
#[derive(Debug, Clone, Default)]
pub struct Addresses(Arc<Mutex<(Option<SocketAddr>, Vec<SocketAddr>)>>);

impl Addresses {
    /// Fixed addresses, such as those of a proxy before a pod.
    pub fn of(http: SocketAddr, tcp: Vec<SocketAddr>) -> Addresses {
        Addresses(Arc::new(Mutex::new((Some(http), tcp))))
    }

    /// Its HTTP address, after the first start.
    pub fn http(&self) -> Option<SocketAddr> {
        self.0.lock().unwrap().0
    }

    /// A URL of the pod.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.lock().unwrap().0.expect("the pod was started"))
    }

    /// Its TCP address, by the index in [`Settings::tcp`].
    pub fn tcp(&self, index: usize) -> SocketAddr {
        self.0.lock().unwrap().1[index]
    }
}

/// One process, killed on drop. If the test fails, shows its log; if the pod panicked, fails the
/// test.
pub struct Pod {
    pub name: String,
    pub addresses: Addresses,
    roles: String,
    settings: Settings,
    dir: TempDir,
    child: Child,
    /// The relays that speak TLS to it.
    relays: Vec<Relay>,
}

impl Pod {
    /// Starts a pod with these roles and waits until it is ready.
    pub async fn start(name: &str, roles: &str, settings: &Settings) -> Pod {
        let dir = tempfile::tempdir().unwrap();
        // A placeholder until the first start; this child ends at once.
        let child = Command::new("true").spawn().unwrap();
        let (roles, settings) = (roles.to_owned(), settings.clone());
        let addresses = Addresses::default();
        let mut pod = Pod {
            name: name.to_owned(),
            addresses,
            roles,
            settings,
            dir,
            child,
            relays: Vec::new(),
        };
        pod.child.wait().unwrap();
        pod.restart().await;
        pod
    }

    /// Starts a pod whose HTTP listener is over TLS, with a certificate of this authority.
    pub async fn start_over_tls(
        name: &str,
        roles: &str,
        settings: &Settings,
        authority: &str,
    ) -> Pod {
        let (dir, child) = (tempfile::tempdir().unwrap(), Command::new("true").spawn().unwrap());
        let (roles, settings) = (roles.to_owned(), settings.clone());
        let addresses = Addresses::default();
        let relays = Vec::new();
        let mut pod = Pod { name: name.to_owned(), addresses, roles, settings, dir, child, relays };
        pod.child.wait().unwrap();
        pod.launch();
        let root = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
        let builder = reqwest::Client::builder().no_proxy().tls_built_in_root_certs(false);
        let url = pod.addresses.url("/readyz").replacen("http:", "https:", 1);
        pod.is_ready(builder.add_root_certificate(root).build().unwrap(), url).await;
        pod
    }

    /// Starts it again after its end, and waits until it is ready.
    pub async fn restart(&mut self) {
        self.launch();
        let url = self.addresses.url("/readyz");
        self.is_ready(client(), url).await;
    }

    async fn is_ready(&mut self, client: reqwest::Client, url: String) {
        eventually(&format!("{} is ready", self.name), async || {
            assert!(!self.has_ended(), "{} ended before it was ready", self.name);
            match client.get(&url).send().await {
                Ok(answer) if answer.status() == 200 => Ok(()),
                Ok(answer) => Err(answer.status().to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Starts the process without waiting.
    pub fn launch(&mut self) {
        assert!(self.has_ended(), "{} still runs", self.name);
        let is_ingest = self.roles.contains("ingest");
        let count = if is_ingest { self.settings.tcp.len() } else { 0 };
        let (http, tcp): (_, Vec<_>) =
            (free_address(), (0..count).map(|_| free_address()).collect());
        std::fs::write(self.config(), self.settings.text(http, &tcp)).unwrap();
        let plain = self.plain(std::iter::once(http).chain(tcp).collect());
        *self.addresses.0.lock().unwrap() = (plain.first().copied(), plain[1..].to_vec());
        let mut command = match self.settings.descriptors {
            None => Command::new(program()),
            Some(count) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {count} && exec \"$0\" \"$@\"")]);
                shell.arg(program());
                shell
            }
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RESEQ_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--roles", &self.roles, "--config"]).arg(self.config());
        command.env("RESEQ_LOG", "info,reseq=debug").env("RESEQ_LOG_FORMAT", "text");
        command.envs(self.settings.environment.clone());
        let log = OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = command.spawn().unwrap();
    }

    /// Plain-text addresses at which this process reaches these addresses of the pod.
    fn plain(&mut self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let Some((_, client)) = &self.settings.tls else { return addresses };
        let relay = |address| Relay::originating(Arc::new(move || Some(address)), client.clone());
        self.relays = addresses.into_iter().map(relay).collect();
        self.relays.iter().map(|relay| relay.address).collect()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        // The system cannot reuse the id until `wait` has reaped the child.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM without waiting.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP: it reads its configuration again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Suspends it with SIGSTOP.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it after [`Pod::freeze`].
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let child = &mut self.child;
        eventually(&what, async || child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned()))
            .await
    }

    /// Stops it, and waits until it has drained within `shutdown_ms`.
    pub async fn drains(&mut self) {
        self.terminate();
        let status = self.ended().await;
        let log = self.log();
        assert!(status.success(), "{} ended with {status}", self.name);
        // The pod logs it if its time ran out.
        assert!(log.contains("drained") && !log.contains("did not end within shutdown_ms"));
    }

    /// Starts it again if it has ended.
    pub async fn runs_again(&mut self) {
        if self.has_ended() {
            self.restart().await;
        }
    }

    /// Its process id, which changes with a restart.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// A URL of this pod.
    pub fn url(&self, path: &str) -> String {
        self.addresses.url(path)
    }

    /// A number from its metrics: that of the first line that starts with `name`, or 0.
    pub async fn metric(&self, name: &str) -> f64 {
        let answer = client().get(self.url("/metrics")).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("reseq.toml")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        // A panic ends only its task, so a test may not notice it.
        let has_panicked = log.contains("panicked at");
        if has_panicked || std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
            eprintln!("--- the log of {} ends with:\n{}", self.name, last.join("\n"));
        }
        if has_panicked && !std::thread::panicking() {
            panic!("{} has panicked", self.name);
        }
    }
}

/// A client for pods that ignores proxy settings.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Removes the tests' own variables from the environment of a child.
pub fn without_settings(command: &mut tokio::process::Command) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RESEQ_")) {
        command.env_remove(name);
    }
}

/// Runs `reseq serve` with this configuration until it ends; returns its status and output.
pub async fn refused_start(config: &str) -> (ExitStatus, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reseq.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = tokio::process::Command::new(program());
    without_settings(&mut command);
    command.args(["serve", "--config"]).arg(&file).env("RESEQ_LOG", "error");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("reseq refuses to start", command.output()).await.unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}
