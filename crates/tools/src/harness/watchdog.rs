//! Kills the processes of the harness if the parent is killed and cannot stop them.

use std::{io::ErrorKind, process::Stdio};

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

/// A shell that waits for the end of its standard input, and then kills the processes with these ids. The input ends
/// when the parent ends in any way. A container image has no shell and needs none: all its processes end with the first
/// process.
pub struct Watchdog {
    shell: Option<Child>,
    _line: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts to watch these processes.
    pub fn over(ids: impl IntoIterator<Item = u32>) -> anyhow::Result<Watchdog> {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        let mut command = Command::new("sh");
        command.args(["-c", "read -r _; kill -9 \"$@\"", "watchdog"]).args(ids);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Use a separate process group, so that Ctrl-C does not trigger the watchdog while the parent stops everything
        // in order.
        let mut shell = match command.process_group(0).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            spawned => Some(spawned.context("starting sh")?),
        };
        Ok(Watchdog { _line: shell.as_mut().and_then(|shell| shell.stdin.take()), shell })
    }

    /// Ends the watchdog before the processes are stopped, because the system may reuse their ids afterwards.
    pub async fn dismiss(self) {
        let Some(mut shell) = self.shell else { return };
        // An error means that the watchdog has already ended.
        let _ = shell.kill().await;
    }
}
