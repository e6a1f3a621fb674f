//! `reseq completions`: prints the completion script for a shell. Also answers the shell's requests for completions,
//! which include the destinations of the service.

use std::time::Duration;

use super::{client_args::ClientArgs, output::write_out};
use clap::{Args, Command, Parser};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell, generate};
use client::pages;

/// How long a shell waits for the names of destinations.
const WAIT: Duration = Duration::from_secs(2);
/// The most names to offer.
const NAMES_MAX: usize = 1_000;
/// The arguments that take names of destinations.
const DESTINATIONS: [&str; 3] = ["destination", "destinations", "to_destination"];

/// The arguments of `reseq completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the completion script. `command` is the whole program.
pub fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    generate(args.shell, &mut command, name, &mut script);
    write_out(&String::from_utf8(script)?)
}

/// If a shell asks for completions (the variable COMPLETE is set), prints them and ends the process.
pub fn complete(program: fn() -> Command) {
    CompleteEnv::with_factory(move || knowing_destinations(program())).complete();
}

fn knowing_destinations(command: Command) -> Command {
    let command = command.mut_args(|arg| match DESTINATIONS.contains(&arg.get_id().as_str()) {
        true => arg.add(ArgValueCandidates::new(destinations)),
        false => arg,
    });
    command.mut_subcommands(knowing_destinations)
}

/// A parser for the options of the service alone.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    client: ClientArgs,
}

/// The destinations of the service that the variables or the current context name; empty if the service does not
/// answer.
fn destinations() -> Vec<CompletionCandidate> {
    let asked = async {
        let service = Options::try_parse_from(["reseq"])?.client.service()?;
        let read = pages::read(&service, "/v1/destinations", &[], NAMES_MAX, None);
        tokio::time::timeout(WAIT, read).await?
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.ok().and_then(|runtime| runtime.block_on(asked).ok());
    let items = found.and_then(|found| found["items"].as_array().cloned()).unwrap_or_default();
    items.iter().filter_map(|item| item["name"].as_str()).map(CompletionCandidate::new).collect()
}
