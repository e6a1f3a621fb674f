//! `reseq completions`: prints the completions for a shell.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::output::write_out;

/// The arguments of `reseq completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints them. `command` is the whole program.
pub fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    generate(args.shell, &mut command, name, &mut script);
    write_out(&String::from_utf8(script)?)
}
