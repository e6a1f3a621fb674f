//! One process of the harness: start, readiness, end.

use std::{
    ffi::OsString,
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use super::SHUTDOWN_MAX;

/// Time limit for a process to become ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// How often to check the process.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How many lines of its log to show when a process fails.
const TAIL_LINES: usize = 10;

/// The role and arguments of a process.
pub struct PodArgs {
    /// The role of the process, such as `sender`.
    pub role: &'static str,
    /// The number of the process within its role, from 1.
    pub number: usize,
    /// The program; `None` for the `reseq` of the harness.
    pub program: Option<PathBuf>,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// True if the HTTP listener of the process speaks TLS.
    pub is_tls: bool,
}

impl PodArgs {
    /// `reseq serve` with one role and this configuration.
    pub fn serving(role: &'static str, number: usize, config: &Path) -> PodArgs {
        PodArgs::of_roles(role, role, number, config)
    }

    /// `reseq serve` with several roles. The first role names the process.
    pub fn of_roles(role: &'static str, roles: &str, number: usize, config: &Path) -> PodArgs {
        let words = ["serve", "--roles", roles, "--config"].map(OsString::from);
        let arguments = words.into_iter().chain([config.into()]).collect();
        PodArgs { role, number, program: None, arguments, is_tls: false }
    }
}

/// A child process with one role or several. Dropping this kills the process, unless it was stopped.
pub struct Process {
    /// The name of the process in the report, such as `sender 2`.
    pub name: String,
    /// The URL of the HTTP listener of the process.
    pub url: String,
    child: Child,
    id: u32,
    log: PathBuf,
    has_ended: bool,
}

impl Process {
    /// Starts a pod that listens at this address and logs into `directory`.
    pub(super) fn start(
        role: &PodArgs,
        reseq: &Path,
        listen: SocketAddr,
        directory: &Path,
    ) -> anyhow::Result<Process> {
        let name = format!("{} {}", role.role, role.number);
        let log = directory.join(format!("{}-{}.log", role.role, role.number));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new(role.program.as_deref().unwrap_or(reseq));
        command.args(&role.arguments);
        for (variable, _) in std::env::vars_os() {
            let text = variable.to_string_lossy();
            // The settings of the user do not apply to this process.
            if text.starts_with("RESEQ_") && text != "RESEQ_LOG" {
                command.env_remove(&variable);
            }
        }
        command.env("RESEQ_HTTP_LISTEN", listen.to_string());
        match role.program {
            // Another program cannot evaluate jq expressions: it needs `reseq` as the runner.
            Some(_) => command.env("RESEQ_JQ_RUNNER", reseq),
            // People read the end of these logs.
            None => command.env("RESEQ_LOG_FORMAT", "text"),
        };
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        // Use a separate process group: Ctrl-C must reach only the parent, which then stops everything in order.
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("starting {name}"))?;
        let id = child.id().unwrap_or_default();
        let scheme = if role.is_tls { "https" } else { "http" };
        Ok(Process { name, url: format!("{scheme}://{listen}"), child, id, log, has_ended: false })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the process is ready.
    pub(super) async fn ready(&mut self, client: &Client) -> anyhow::Result<()> {
        let since = Instant::now();
        let url = format!("{}/readyz", self.url);
        loop {
            if let Some(status) = self.ended()? {
                bail!("{} ended before it was ready ({status}):\n{}", self.name, self.log_tail());
            }
            let answer = client.get(&url).send().await;
            let said = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => answer.status().to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if since.elapsed() > READY_MAX {
                let limit = READY_MAX.as_secs();
                let tail = self.log_tail();
                bail!("{} was not ready within {limit} s ({said}):\n{tail}", self.name);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The exit status, if the process ended unexpectedly. Reports it once.
    pub(super) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        if self.has_ended {
            return Ok(None);
        }
        let status = self.child.try_wait()?;
        self.has_ended = status.is_some();
        Ok(status)
    }

    /// Sends SIGKILL: the process can neither finish nor give anything back.
    pub(super) async fn kill(&mut self) -> std::io::Result<()> {
        self.has_ended = true;
        self.child.kill().await
    }

    /// Asks the process to stop.
    pub(super) fn ask_to_stop(&self) {
        // The child has not been reaped, so the system cannot have reused its id.
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            let _ = kill_process(id, Signal::TERM);
        }
    }

    /// Waits until the process has stopped, or kills it. True if it stopped in time.
    pub(super) async fn stopped(&mut self) -> bool {
        let limit = SHUTDOWN_MAX + Duration::from_secs(1);
        if self.has_ended || timeout(limit, self.child.wait()).await.is_ok() {
            return true;
        }
        let _ = self.child.kill().await;
        false
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}
