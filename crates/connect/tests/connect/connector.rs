//! Real `reseq-connect` processes.

use std::{
    fs::OpenOptions,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use reseq_testing::support::{pods::client, ports::free_address, wait::eventually};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_reseq-connect");

/// One process, killed on drop.
pub struct Connector {
    http: SocketAddr,
    dir: TempDir,
    child: Child,
}

impl Connector {
    /// A process that is not started yet. `access`: how it reaches Reseq; `section`: its one source.
    pub fn new(access: &str, section: &str) -> Connector {
        let (http, dir) = (free_address(), tempfile::tempdir().unwrap());
        let child = Command::new("true").spawn().unwrap();
        let mut connector = Connector { http, dir, child };
        connector.child.wait().unwrap();
        let text = format!(
            "[reseq]\n{access}[http]\nlisten = \"{http}\"\n[log]\nformat = \"text\"\n{section}"
        );
        std::fs::write(connector.config(), text).unwrap();
        connector
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("connect.toml")
    }

    /// The same with another text in its configuration.
    #[cfg(feature = "kafka")]
    pub fn with(self, from: &str, to: &str) -> Connector {
        let text = std::fs::read_to_string(self.config()).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(self.config(), text.replace(from, to)).unwrap();
        self
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args([verb, "--config"]).arg(self.config()).stdin(Stdio::null());
        command
    }

    /// Starts it with these arguments.
    pub fn start(&mut self, more: &[&str]) {
        let log = OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command("run");
        command.args(more).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = command.spawn().unwrap();
    }

    /// The command `check` finds what keeps the connector from going on.
    pub fn check_says(&self, text: &str) {
        let said = self.asks("check");
        let found = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.code() == Some(1) && found.contains(text), "{text} is not in: {found}");
    }

    /// What `check` or `status` prints.
    pub fn asks(&self, verb: &str) -> Output {
        self.command(verb).output().unwrap()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it, and waits until it has drained.
    pub async fn drains(&mut self) {
        self.ends().await;
        let log = self.log();
        assert!(log.contains("drained") && !log.contains("ends before"), "{log}");
    }

    /// Stops it, whatever it does.
    pub async fn ends(&mut self) {
        self.signal(Signal::TERM);
        let child = &mut self.child;
        let status = eventually("the connector ends", async || {
            child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        });
        assert!(status.await.success());
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    async fn get(&self, path: &str) -> Result<(u16, String), String> {
        let answer = client().get(format!("http://{}{path}", self.http)).send().await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok((answer.status().as_u16(), answer.text().await.map_err(|error| error.to_string())?))
    }

    pub async fn is_ready(&self) {
        eventually("the connector is ready", async || match self.get("/readyz").await? {
            (200, _) => Ok(()),
            (_, text) => Err(text),
        })
        .await;
    }

    /// Waits until it says that it is not ready because of this.
    pub async fn is_held_by(&self, words: &str) {
        eventually(&format!("the connector says {words}"), async || {
            match self.get("/readyz").await? {
                (503, text) if text.contains(words) => Ok(()),
                (_, text) => Err(text),
            }
        })
        .await;
    }

    /// A number from its metrics, or 0.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.map(|(_, text)| text).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    /// The sum of a number over all its labels.
    #[cfg(feature = "kafka")]
    pub async fn total(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.map(|(_, text)| text).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        if std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            eprintln!("--- the log of reseq-connect ends with:\n{}", last.join("\n"));
        } else {
            assert!(!log.contains("panicked at"), "{log}");
        }
    }
}
