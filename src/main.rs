//! Parse, match, run.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use reseq::cli::{check, demo, send, serve, status};

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
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(args).await,
        Command::Demo(args) => match demo::run(args).await {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Command::Send(args) => send::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Check(args) => check::run(args).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reseq: {error:#}");
            ExitCode::FAILURE
        }
    }
}
