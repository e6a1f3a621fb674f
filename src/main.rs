//! Parses the arguments and runs the command.

#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use cli::{
    ClientCommand, completions,
    exit::{EXIT_CODES, Exit},
    man,
};
use reseq::Role;
use tools::demo;

mod check;
mod migrate;
mod reload;

/// The version, with the commit if whoever builds says it: `RESEQ_BUILD="0.1.0 (1a2b3c4)" cargo build`.
const VERSION: &str = match option_env!("RESEQ_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// jemalloc handles messages well: many small allocations that another thread frees.
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
    /// Evaluate a jq expression for a service, which starts this command itself.
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
    let result = match Cli::parse().command {
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
            eprintln!("reseq: {error:#}");
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
}
