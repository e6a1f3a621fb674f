//! `reseq-connect`: copies a table or a log into Reseq, each message once and in order. Also copies from Reseq into a
//! log.
//!
//! It stores nothing itself. The destinations know how far a source is: each keeps the position of the last message.

#![forbid(unsafe_code)]

#[cfg(not(any(feature = "kafka", feature = "postgres")))]
compile_error!("choose a kind of source, such as --features postgres");

mod board;
mod check;
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod outlet;
#[cfg(feature = "postgres")]
mod postgres;
mod run;
mod settings;
mod source;

use std::{collections::HashMap, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use run::{Launch, Shared};
use settings::Settings;

/// Copies a table or a log into Reseq: each message once, in order.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy until SIGTERM
    Run {
        #[command(flatten)]
        file: File,
        /// Where to begin if a destination has no mark: "oldest" (the oldest message that the source still has), a
        /// position, or for Kafka also "newest" or "committed". For one of several sources NAME=WHERE, for one
        /// partition NAME/3=WHERE; may be given several times. Applies once, at this start
        #[arg(long, value_name = "[NAME=]WHERE")]
        begin_at: Vec<String>,
    },
    /// Check that the sources have everything that they need. Changes nothing
    Check(File),
    /// Show how far each source is
    Status(File),
}

#[derive(Debug, clap::Args)]
struct File {
    /// Configuration file
    #[arg(short, long, env = "RESEQ_CONNECT_CONFIG")]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match command(Args::parse().command).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reseq-connect: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn command(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Run { file, begin_at } => {
            run(&Settings::read(&file.config)?, &begin_at).await.map(|()| true)
        }
        Command::Check(file) => check::check(&Settings::read(&file.config)?).await,
        Command::Status(file) => check::status(&Settings::read(&file.config)?).await.map(|()| true),
    }
}

/// The positions to begin at, by the name of the source.
fn begins(settings: &Settings, given: &[String]) -> anyhow::Result<HashMap<String, String>> {
    let one = |text: &String| {
        let (name, at) = match (text.split_once('='), settings.sources.as_slice()) {
            (Some((name, at)), _) => (name, at),
            (None, [only]) => (only.name.as_str(), text.as_str()),
            _ => bail!("--begin-at: {text:?}; write NAME=WHERE with the name of a source"),
        };
        // `orders/3` is a partition of `orders`.
        let section = name.split('/').next();
        let source = settings.sources.iter().find(|source| Some(source.name.as_str()) == section);
        let source = source.with_context(|| format!("--begin-at: there is no source {name:?}"))?;
        source.check_begin(name, at).context("--begin-at")?;
        Ok((name.to_owned(), at.to_owned()))
    };
    given.iter().map(one).collect()
}

async fn run(settings: &Settings, begin_at: &[String]) -> anyhow::Result<()> {
    let begins = Arc::new(begins(settings, begin_at)?);
    let process = telemetry::Process {
        pod: std::env::var("HOSTNAME").unwrap_or_default(),
        roles: "connect".to_owned(),
    };
    // At `info`, the client of Kafka would repeat the messages of the sources.
    let level = format!("krafka=error,{}", settings.log.level);
    let _log = telemetry::install_log(settings.log.is_json(), &level, process)
        .map_err(anyhow::Error::msg)?;
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let shared = Shared {
        service: Arc::new(settings.reseq.service()?),
        board: Arc::default(),
        shutdown: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    let serving = http::serve(&settings.http, shared.clone(), metrics).await?;
    for section in &settings.sources {
        let (own, shared, begins) = (section.clone(), shared.clone(), begins.clone());
        let launch = Launch { settings: own, shared, begins };
        launch.run(settings).await.with_context(|| format!("source.{}", section.name))?;
    }
    #[cfg(feature = "kafka")]
    for sink in &settings.sinks {
        kafka::Sink::start(sink, settings.kafka()?, &shared);
    }
    // Start this after all sources are on the board. Before, it would report that the process is ready.
    shared.tasks.spawn(serving);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %settings.http.listen, "started");
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    shared.shutdown.cancel();
    shared.tasks.close();
    shared.tasks.wait().await;
    Ok(())
}
