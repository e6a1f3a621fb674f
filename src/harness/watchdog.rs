//! What ends the processes on the harness when their parent is killed and can no longer do it.

use std::process::Stdio;

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

/// A shell that waits for the end of its standard input, which comes when its parent ends in
/// whatever way, and then kills the processes whose ids it was given.
pub struct Watchdog {
    shell: Child,
    _line: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over these processes.
    pub fn over(ids: impl IntoIterator<Item = u32>) -> anyhow::Result<Watchdog> {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        let mut command = Command::new("sh");
        command.args(["-c", "read -r _; kill -9 \"$@\"", "watchdog"]).args(ids);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that Ctrl-C does not wake it while its parent stops in order.
        let mut shell = command.process_group(0).spawn().context("starting sh")?;
        Ok(Watchdog { _line: shell.stdin.take(), shell })
    }

    /// Sends the watchdog away, before its processes are stopped: afterwards their ids may belong
    /// to others.
    pub async fn dismiss(mut self) {
        // If this fails the watchdog has ended, which is what is wanted.
        let _ = self.shell.kill().await;
    }
}
