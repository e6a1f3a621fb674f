//! `reseq-bench`: measures throughput, latency and cost of Reseq on real processes, from outside.
//!
//! ```text
//! producers ──► ingest ──► processors ──► senders ──► receiver
//!   (here)                 (work in Rust)              (here)
//! ```
//!
//! Ingest and senders are `reseq` processes over an embedded Redis. Processors are this program,
//! which has the work linked in. This program measures order, times and loss at both ends. The
//! operating system reports CPU time; Redis reports calls and memory.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod args;
mod chart;
mod collector;
mod counters;
mod failover;
mod hostile;
mod idle;
mod load;
mod outcome;
mod pairs;
mod plan;
mod processor;
mod program;
mod progress;
mod receive;
mod report;
mod run;
mod setup;
mod surroundings;
mod table;
mod tls;
mod usage;
mod verify;

/// The allocator of `reseq`, so that processors here use memory like those of `reseq`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measure throughput, latency and cost of Reseq on real processes
#[derive(Parser)]
#[command(version, about, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    args: args::BenchArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// A processor of the bench. The bench itself starts it.
    #[command(hide = true)]
    Processor(processor::ProcessorArgs),
    /// Compare the CPU time per message without and with some arguments, in alternating pairs of runs
    Pairs(pairs::PairsArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        // Like `reseq serve`, this command starts its own runtime, with its own number of threads.
        Some(Command::Processor(args)) => processor::run(args).map(|()| true),
        Some(Command::Pairs(args)) => measure(async { pairs::run(args).await.map(|()| true) }),
        None => measure(run::run(cli.args)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reseq-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(work: impl Future<Output = anyhow::Result<bool>>) -> anyhow::Result<bool> {
    tokio::runtime::Runtime::new()?.block_on(work)
}
