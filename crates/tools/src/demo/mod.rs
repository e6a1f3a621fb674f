//! `reseq demo`: runs Reseq's main use case on real processes, and checks the result from outside.
//!
//! ```text
//! producers ──► ingest ──► 2 processors ──► 2 senders ──► receivers
//!   (here)                      │                           (here)
//!                          transformer (here)
//! ```
//!
//! The five processes in between are this program's own `reseq serve`, with an embedded Redis. All
//! measurements are made here, at both ends, without Reseq's own clocks and counters.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::sleep;

use faults::Killed;
use ledger::Ledger;
use plan::Plan;
use producers::Schedule;
use progress::Progress;
use receivers::Receivers;
use report::Report;
use transformer::Transformer;

use crate::harness::{Harness, Interrupt};
use cli::{
    durations::duration_within,
    exit::Exit,
    output::{Output, write_out},
    usage::WrongUsage,
};

mod faults;
mod ledger;
mod order;
mod plan;
mod producers;
mod progress;
mod receivers;
mod report;
mod setup;
mod table;
mod transformer;

/// Time limit for all arrivals after the last message was sent.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
/// How often to check the arrivals.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between readiness and the first message.
const LEAD: Duration = Duration::from_millis(200);

/// The arguments of `reseq demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Kill a processor and the delivering sender half-way (1), or nothing (0). With 0, check how close every message
    /// comes to the ideal
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub kills: u8,
    /// Time between two messages of one stream, 1ms to 60s
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "250ms",
        value_parser = duration_within("1ms", "60s")
    )]
    pub interval: Duration,
    /// Shortest processing time, at most 20s
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "500ms",
        value_parser = duration_within("0ms", "20s")
    )]
    pub work_min: Duration,
    /// Longest processing time, at most 20s
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1s",
        value_parser = duration_within("0ms", "20s")
    )]
    pub work_max: Duration,
    /// Number of messages over HTTP, and the same number over TCP
    #[arg(long, default_value_t = 80, value_parser = messages)]
    pub messages: usize,
    /// Seed of the processing times; the same seed gives the same times
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Format of the report
    #[arg(short, long, value_name = "FORMAT", default_value_t, value_enum)]
    pub output: Output,
}

fn messages(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| "write a number from 1 to 100000".to_owned())
}

/// Runs the demo. The future is boxed, so that the demo is compiled with this crate, and not again with each program.
pub fn run(args: DemoArgs) -> Pin<Box<dyn Future<Output = anyhow::Result<Exit>>>> {
    Box::pin(demonstrate(args))
}

/// Runs the demo and prints its report. `Exit::Ok` if everything arrived in order.
async fn demonstrate(args: DemoArgs) -> anyhow::Result<Exit> {
    let (min, max) = (args.work_min, args.work_max);
    if min > max {
        let problem = format!("--work-min {min:?} is above --work-max {max:?}");
        return Err(WrongUsage(problem).into());
    }
    let mut interrupt = Interrupt::listen()?;
    let ledger = Arc::new(Ledger::new(Plan::draw(args.messages, min, max, args.seed)));
    let transformer = Transformer::start(ledger.clone()).await?;
    let receivers = Receivers::start(ledger.clone()).await?;
    let progress = Progress::start(ledger.clone());

    progress.note("starting Redis, 1 ingest, 2 processors and 2 senders");
    let reseq = std::env::current_exe().context("finding the program itself")?;
    let mut harness = Harness::open("demo", reseq).await?;
    let played = tokio::select! {
        played = play(&args, &mut harness, &transformer, &receivers, &ledger, &progress) => {
            played.map(Some)
        }
        () = interrupt.wait() => Ok(None),
    };
    progress.note("stopping everything");
    let (problems, logs) = harness.close().await;
    progress.finish();
    // Create the report only now: a repeat may arrive while the processes stop.
    let report = played.map(|played| Some(played?.report(&args, &ledger, problems)));
    let keep = match &report {
        Ok(Some(report)) => !report.is_flawless(),
        Ok(None) => false,
        Err(_) => true,
    };
    if keep {
        eprintln!("The logs of all processes are kept in {}", logs.keep().display());
    }
    let Some(report) = report? else { bail!("interrupted: everything was stopped") };
    match args.output {
        Output::Table => write_out(&format!("\n{report}"))?,
        output => write_out(&output.render(&serde_json::to_string(&report)?)?)?,
    }
    Ok(if report.complete_and_in_order { Exit::Ok } else { Exit::Error })
}

/// The events of the demo besides the messages.
#[derive(Debug, Default)]
struct Played {
    killed: Vec<Killed>,
    problems: Vec<String>,
}

impl Played {
    fn report(mut self, args: &DemoArgs, ledger: &Ledger, more: Vec<String>) -> Report {
        self.problems.extend(more);
        Report::of(args, ledger, self.killed, self.problems)
    }
}

/// Starts the processes, sends all messages, injects the faults, and waits for the arrivals.
async fn play(
    args: &DemoArgs,
    harness: &mut Harness,
    transformer: &Transformer,
    receivers: &Receivers,
    ledger: &Ledger,
    progress: &Progress,
) -> anyhow::Result<Played> {
    let tcp = setup::fill(harness, transformer, receivers).await?;
    progress.note("all processes are ready; sending");
    let schedule = Schedule { start: Instant::now() + LEAD, interval: args.interval };
    let half = schedule.due(args.messages / 2 + 1);
    let url =
        harness.of_role("ingest").map(|process| process.url.clone()).next().unwrap_or_default();
    let kills = async {
        match args.kills {
            0 => Ok(Vec::new()),
            _ => faults::after_partial_success(harness, half, ledger, progress).await,
        }
    };
    let (http, tcp, killed) = tokio::join!(
        producers::over_http(&url, ledger, schedule),
        producers::over_tcp(tcp, ledger, schedule),
        kills,
    );
    let mut played = Played::default();
    let mut all_sent = true;
    for sent in [http, tcp] {
        if let Err(error) = sent {
            all_sent = false;
            played.problems.push(format!("{error:#}"));
        }
    }
    match killed {
        Ok(killed) => played.killed = killed,
        Err(error) => played.problems.push(format!("nothing could be killed: {error:#}")),
    }
    if all_sent {
        progress.note("all messages are sent; waiting for the last to arrive");
        wait_for_arrivals(harness, ledger, &mut played).await;
    }
    played.problems.extend(harness.ended());
    Ok(played)
}

async fn wait_for_arrivals(harness: &mut Harness, ledger: &Ledger, played: &mut Played) {
    let since = Instant::now();
    while !ledger.is_complete() {
        played.problems.extend(harness.ended());
        if since.elapsed() > ARRIVAL_MAX {
            let limit = ARRIVAL_MAX.as_secs();
            played.problems.push(format!("not everything arrived within {limit} s"));
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}
