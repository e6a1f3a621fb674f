//! Parses the arguments and runs the command.

#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cli::{
    ClientCommand, advice, completions,
    exit::{EXIT_CODES, Exit},
    groups::grouped,
    man, spellings,
};
use reseq::Role;
use tools::demo;

mod check;
mod migrate;
mod reload;

/// The version, with the commit if the build names it: `RESEQ_BUILD="0.1.0 (1a2b3c4)" cargo build`.
const VERSION: &str = match option_env!("RESEQ_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// jemalloc suits the work on messages: many small allocations that another thread frees.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Process messages in parallel and deliver them in order of arrival
#[derive(Parser)]
#[command(version = VERSION, about, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service, with all roles or some of them
    Serve(ServeArgs),
    /// Check the configuration and Redis
    Check(check::CheckArgs),
    /// Upgrade the data in Redis to the schema of this version
    Migrate(migrate::MigrateArgs),
    /// Let a running process read its configuration again
    Reload(reload::ReloadArgs),
    #[command(flatten)]
    Client(Box<ClientCommand>),
    /// Run a demonstration on real processes and print a report
    Demo(demo::DemoArgs),
    /// Print the completions for a shell
    Completions(completions::CompletionsArgs),
    /// Write the man pages of all commands
    Man(man::ManArgs),
    /// Evaluate a jq expression for a service. The service starts this command itself.
    #[command(hide = true)]
    JqRunner,
}

/// Arguments of `reseq serve`.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Roles of this process, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "ingest,processor,sender")]
    roles: Vec<Role>,
}

fn main() -> ExitCode {
    completions::complete(Cli::command);
    let args = spellings::of_today(std::env::args_os().collect());
    let matches = grouped(Cli::command()).get_matches_from(args);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        // Starts no runtime: its threads would use memory, which is limited for a runner.
        Command::JqRunner => {
            jq::child::run().context("the jq runner of a service failed").map(|()| Exit::Ok)
        }
        // `serve` starts its own runtime with its own number of threads.
        Command::Serve(args) => {
            reseq::serve::run(args.config.as_deref(), args.roles, |reseq| reseq).map(|()| Exit::Ok)
        }
        command => run(command),
    };
    let exit = result.unwrap_or_else(|error| {
        let exit = Exit::of(&error);
        if exit != Exit::Ok {
            let problem = format!("{error:#}");
            eprintln!("reseq: {problem}{}", advice::about(&problem));
        }
        exit
    });
    exit.into()
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(args) => return demo::run(args).await,
        Command::Client(command) => return command.run().await,
        Command::Check(args) => check::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::Reload(args) => reload::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Serve(_) | Command::JqRunner => anyhow::bail!("this command starts on its own"),
    }?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_shows_each_command_in_one_group() {
        let help = grouped(Cli::command()).render_help().to_string();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let begin = format!("  {} ", command.get_name());
            let lines: Vec<&str> = help.lines().filter(|line| line.starts_with(&begin)).collect();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(lines.len() == 1 && lines[0].contains(&about), "{lines:?} {begin}");
        }
        assert!(
            help.contains("Options:\n  -h, --help") && help.contains("Exit codes:\n"),
            "{help}"
        );
    }
}
