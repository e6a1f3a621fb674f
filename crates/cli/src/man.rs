//! `reseq man`: writes the man pages of all commands.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command};

/// The arguments of `reseq man`.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Directory for the pages; created if it is missing
    directory: PathBuf,
}

/// Writes a page for each command. `command` is the whole program.
pub fn run(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    let directory = &args.directory;
    let written =
        fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    written.with_context(|| format!("writing man pages to {}", directory.display()))
}
