//! `reseq serve`: runs the service.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    app::{Reseq, Role},
    config::Config,
    telemetry::{self, install_traces},
};

/// Arguments of `reseq serve`.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "RESEQ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Roles of this process, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "ingest,processor,sender")]
    pub roles: Vec<Role>,
}

/// Runs until SIGTERM or SIGINT, then drains.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    serve(args.config.as_deref(), args.roles, |reseq| reseq).await
}

/// Like `run`, but lets the caller add to the service, such as transforms.
pub async fn serve(
    config: Option<&Path>,
    roles: Vec<Role>,
    with: impl FnOnce(Reseq) -> Reseq,
) -> anyhow::Result<()> {
    let config = Config::load(config, std::env::vars())?;
    telemetry::install_log(config.log.is_json());
    let traces = match config.tracing.is_on() {
        true => Some(install_traces(&config.tracing.otlp_endpoint, config.tracing.sample_ratio)?),
        false => None,
    };
    let metrics = telemetry::install_metrics().context("the metrics could not be set up")?;
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        // Without this, histograms grow as long as nobody reads the metrics.
        let mut tick = tokio::time::interval(std::time::Duration::from_secs(5));
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let reseq = with(Reseq::new(config)).roles(roles).metrics(metrics);
    let mut running = tokio::select! {
        running = reseq.start() => running?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let ended = tokio::select! {
        ended = running.ended() => ended,
        _ = terminate.recv() => running.stop().await,
        _ = interrupt.recv() => running.stop().await,
    };
    if let Some(traces) = traces {
        traces.end().await;
    }
    Ok(ended?)
}
