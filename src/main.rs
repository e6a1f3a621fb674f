//! Parses the arguments and runs the command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use reseq::cli::{
    cancel, check, dead_letters, demo, destinations, jq_runner, log, messages, migrate, pause,
    purge, repair, replay, retry_head, send, serve, show, skip_head, status, topics,
};

/// jemalloc, because messages are many small allocations that another thread frees.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Process messages in parallel and deliver them in order of arrival
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service, with all roles or some of them
    Serve(serve::ServeArgs),
    /// Run a demonstration on real processes and print a report
    Demo(demo::DemoArgs),
    /// Send messages from arguments, a file or standard input
    Send(send::SendArgs),
    /// Show the backlog and progress of all destinations
    Status(status::StatusArgs),
    /// List the pending messages of a destination
    Messages(messages::MessagesArgs),
    /// Show one message, or what became of it
    Show(show::ShowArgs),
    /// Pause delivery to a destination, or ingest of its messages
    Pause(pause::PauseArgs),
    /// Resume delivery and ingest of a destination
    Resume(pause::ResumeArgs),
    /// Retry the head of a lane now, optionally with a corrected body
    RetryHead(retry_head::RetryHeadArgs),
    /// Make the head of a lane a dead letter, so that the lane continues
    SkipHead(skip_head::SkipHeadArgs),
    /// Cancel one pending message
    Cancel(cancel::CancelArgs),
    /// Cancel all pending messages of a destination or of one ordering key
    Purge(purge::PurgeArgs),
    /// Find and repair inconsistent data of a destination in Redis
    Repair(repair::RepairArgs),
    /// List, show, redrive or discard dead letters
    DeadLetters(dead_letters::DeadLettersArgs),
    /// Show what became of the last messages of a destination
    Log(log::LogArgs),
    /// Deliver logged messages again
    Replay(replay::ReplayArgs),
    /// List, create, replace or remove destinations
    Destinations(destinations::DestinationsArgs),
    /// List, create, replace or remove topics
    Topics(topics::TopicsArgs),
    /// Check the configuration and Redis
    Check(check::CheckArgs),
    /// Upgrade the data in Redis to the schema of this version
    Migrate(migrate::MigrateArgs),
    /// Evaluate a jq expression for a processor, which starts this itself.
    #[command(hide = true)]
    JqRunner,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        // No runtime here: its threads would use up memory, which is limited for a runner.
        Command::JqRunner => jq_runner::run(),
        command => return run(command),
    };
    exit_code(result)
}

#[tokio::main]
async fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Serve(args) => serve::run(args).await,
        Command::Demo(args) => match demo::run(args).await {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Command::Send(args) => send::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Messages(args) => messages::run(args).await,
        Command::Show(args) => show::run(args).await,
        Command::Pause(args) => pause::pause(args).await,
        Command::Resume(args) => pause::resume(args).await,
        Command::RetryHead(args) => retry_head::run(args).await,
        Command::SkipHead(args) => skip_head::run(args).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Purge(args) => purge::run(args).await,
        Command::Repair(args) => match repair::run(args).await {
            Ok(true) => return ExitCode::from(repair::FOUND),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        },
        Command::DeadLetters(args) => dead_letters::run(args).await,
        Command::Log(args) => log::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Destinations(args) => destinations::run(args).await,
        Command::Topics(args) => topics::run(args).await,
        Command::Check(args) => check::run(args).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::JqRunner => jq_runner::run(),
    };
    exit_code(result)
}

fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reseq: {error:#}");
            ExitCode::FAILURE
        }
    }
}
