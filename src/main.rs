//! Parse, match, run.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use reseq::cli::{check, demo, jq_runner, send, serve, status};

/// Process messages in parallel, deliver them in order of arrival.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service: all roles, or some.
    Serve(serve::ServeArgs),
    /// Show the main job on real processes, with a report.
    Demo(demo::DemoArgs),
    /// Send messages: from arguments, a file, or standard input.
    Send(send::SendArgs),
    /// Show all destinations and how far they are.
    Status(status::StatusArgs),
    /// Check the configuration and Redis.
    Check(check::CheckArgs),
    /// Evaluate a jq expression for a processor, which starts this itself.
    #[command(hide = true)]
    JqRunner,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        // Its memory is bounded: no runtime, whose threads would take their share.
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
        Command::Check(args) => check::run(args).await,
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
