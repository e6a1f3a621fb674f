//! Parses the arguments and runs the command.

#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use cli::{
    audit, completions, context, dead_letters, destinations, doctor,
    exit::{EXIT_CODES, Exit},
    health, lanes, log, man, messages, operations, pause, pods, purge, repair, replay, retry_head,
    send, skip_head, status, tail, tokens, top, topics, verify, why,
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
    /// Check whether a process is ready to work
    Health(health::HealthArgs),
    /// Send messages from arguments, a file or standard input
    Send(send::SendArgs),
    /// Show the backlog and progress of all destinations
    Status(status::StatusArgs),
    /// Show the deployment live on the terminal
    Top(top::TopArgs),
    /// Show what blocks a destination or a lane, and what to do
    Why(why::WhyArgs),
    /// Show the lanes with the most pending messages
    Lanes(lanes::LanesArgs),
    /// Check the deployment, and say what to do about each finding
    Doctor(doctor::DoctorArgs),
    /// List the live pods, and which partitions each owns
    Pods(pods::PodsArgs),
    /// List, show, create, change or delete destinations
    Destinations(destinations::DestinationsArgs),
    /// Create, list, show or revoke tokens
    Tokens(tokens::TokensArgs),
    /// Show what operators did
    Audit(audit::AuditArgs),
    /// List, show, create, change or delete topics
    Topics(topics::TopicsArgs),
    /// List, show or cancel pending messages
    Messages(messages::MessagesArgs),
    /// Show what happened to the last messages of a destination
    Log(log::LogArgs),
    /// Show deliveries as they happen
    Tail(tail::TailArgs),
    /// List, show, redrive or discard dead letters
    DeadLetters(dead_letters::DeadLettersArgs),
    /// List, show or cancel bulk operations
    Operations(operations::OperationsArgs),
    /// Pause delivery to a destination, or ingest of its messages
    Pause(pause::PauseArgs),
    /// Resume delivery and ingest of a destination
    Resume(pause::PauseArgs),
    /// Retry the head of a lane now, optionally with a corrected body
    RetryHead(retry_head::RetryHeadArgs),
    /// Make the head of a lane a dead letter, so that the lane continues
    SkipHead(skip_head::SkipHeadArgs),
    /// Cancel all pending messages of a destination or of one ordering key
    Purge(purge::PurgeArgs),
    /// Deliver logged messages again
    Replay(replay::ReplayArgs),
    /// Prove from the log and a receiver's journal that the order held
    Verify(verify::VerifyArgs),
    /// Find and repair inconsistent data of a destination in Redis
    Repair(repair::RepairArgs),
    /// Give names to services, with their tokens, and choose the current one
    Context(context::ContextArgs),
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
        Command::Status(args) => return status::run(args).await,
        Command::Verify(args) => return verify::run(args).await,
        Command::Doctor(args) => return doctor::run(args).await,
        Command::Repair(args) => return repair::run(args).await,
        Command::Check(args) => check::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::Reload(args) => reload::run(&args),
        Command::Health(args) => health::run(args).await,
        Command::Send(args) => send::run(args).await,
        Command::Top(args) => top::run(args).await,
        Command::Why(args) => why::run(args).await,
        Command::Lanes(args) => lanes::run(args).await,
        Command::Pods(args) => pods::run(args).await,
        Command::Context(args) => context::run(args).await,
        Command::Destinations(args) => destinations::run(args).await,
        Command::Tokens(args) => tokens::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Topics(args) => topics::run(args).await,
        Command::Messages(args) => messages::run(args).await,
        Command::Log(args) => log::run(args).await,
        Command::Tail(args) => tail::run(args).await,
        Command::DeadLetters(args) => dead_letters::run(args).await,
        Command::Operations(args) => operations::run(args).await,
        Command::Pause(args) => pause::pause(args).await,
        Command::Resume(args) => pause::resume(args).await,
        Command::RetryHead(args) => retry_head::run(args).await,
        Command::SkipHead(args) => skip_head::run(args).await,
        Command::Purge(args) => purge::run(args).await,
        Command::Replay(args) => replay::run(args).await,
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
