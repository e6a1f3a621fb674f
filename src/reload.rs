//! `reseq reload`: lets a running process read its configuration again.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use config::Config;
use rustix::process::{Pid, Signal, kill_process};

/// Arguments of `reseq reload`.
#[derive(Debug, clap::Args)]
pub struct ReloadArgs {
    /// The configuration file (TOML) of the process
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The id of the process; 1 in a container
    #[arg(long, default_value_t = 1)]
    pid: i32,
}

/// Checks the configuration, so that the caller sees its errors, and signals the process.
pub fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let config = Config::load(args.config.as_deref(), std::env::vars())?;
    telemetry::check_level(&config.log.level).map_err(anyhow::Error::msg)?;
    let name = std::fs::read_to_string(format!("/proc/{}/comm", args.pid)).unwrap_or_default();
    ensure!(
        name.trim_end() == "reseq",
        "process {} is not reseq: say with --pid which process to reload",
        args.pid
    );
    let pid = Pid::from_raw(args.pid).context("--pid: no process has this id")?;
    kill_process(pid, Signal::HUP)
        .with_context(|| format!("process {} cannot be signalled", args.pid))?;
    println!("process {} reloads {}; its log says what has changed", args.pid, file_of(args));
    Ok(())
}

fn file_of(args: &ReloadArgs) -> String {
    args.config.as_ref().map_or_else(|| "its environment".into(), |path| path.display().to_string())
}
