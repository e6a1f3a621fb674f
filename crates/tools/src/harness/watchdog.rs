//! Kills the processes of the harness if their parent is killed and cannot do so.

use std::{io::ErrorKind, process::Stdio};

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

/// A shell that waits for the end of its standard input, which comes when its parent ends in any
/// way, and then kills the processes with these ids. The image of a container has no shell and needs none: all processes
/// end with the first one.
pub struct Watchdog {
    shell: Option<Child>,
    _line: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over these processes.
    pub fn over(ids: impl IntoIterator<Item = u32>) -> anyhow::Result<Watchdog> {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        let mut command = Command::new("sh");
        command.args(["-c", "read -r _; kill -9 \"$@\"", "watchdog"]).args(ids);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own process group, so that Ctrl-C does not trigger it while its parent stops in
        // order.
        let mut shell = match command.process_group(0).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            spawned => Some(spawned.context("starting sh")?),
        };
        Ok(Watchdog { _line: shell.as_mut().and_then(|shell| shell.stdin.take()), shell })
    }

    /// Ends the watchdog before its processes are stopped, because their ids may be reused
    /// afterwards.
    pub async fn dismiss(self) {
        let Some(mut shell) = self.shell else { return };
        // An error means that the watchdog has already ended.
        let _ = shell.kill().await;
    }
}
