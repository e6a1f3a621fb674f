//! Runs the service as a whole process: its threads, log, metrics, traces and signals.

use std::{path::Path, thread::available_parallelism};

use anyhow::Context;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use crate::{Reseq, Role};
use config::Config;
use telemetry::install_traces;

/// Runs until SIGTERM or SIGINT, then drains. With `with`, the caller may add to the service,
/// such as transforms. Uses its own threads, as many as configured.
pub fn run(
    config: Option<&Path>,
    roles: Vec<Role>,
    with: impl FnOnce(Reseq) -> Reseq,
) -> anyhow::Result<()> {
    let config = Config::load(config, std::env::vars())?;
    let cpus = available_parallelism().map_or(1, usize::from);
    let threads = threads(config.threads, cpus, &roles);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.context("the threads could not be started")?;
    runtime.block_on(serve(config, roles, with))
}

/// The number of threads. A sender delivers the messages of a lane one by one, so work for other lanes must not
/// delay it. In other pods, more threads mostly wake each other: the pods share the machine with Redis.
fn threads(configured: usize, cpus: usize, roles: &[Role]) -> usize {
    match configured {
        0 if roles.contains(&Role::Sender) => cpus,
        0 => cpus.div_ceil(2),
        threads => threads,
    }
}

async fn serve(
    config: Config,
    roles: Vec<Role>,
    with: impl FnOnce(Reseq) -> Reseq,
) -> anyhow::Result<()> {
    telemetry::install_log(config.log.is_json());
    let traces = match config.tracing.is_on() {
        true => Some(install_traces(&config.tracing.otlp_endpoint, config.tracing.sample_ratio)?),
        false => None,
    };
    let metrics = telemetry::install_metrics().context("the metrics could not be set up")?;
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        // Without this, histograms grow until somebody reads the metrics.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_a_thread_for_each_cpu_and_others_half() {
        let of = |roles: &[Role]| [1, 2, 3, 8].map(|cpus| threads(0, cpus, roles));
        assert_eq!(of(&[Role::Ingest, Role::Processor, Role::Sender]), [1, 2, 3, 8]);
        assert_eq!(of(&[Role::Sender]), [1, 2, 3, 8]);
        assert_eq!(of(&[Role::Ingest, Role::Processor]), [1, 1, 2, 4]);
        assert_eq!(threads(5, 2, &[Role::Ingest]), 5);
    }
}
