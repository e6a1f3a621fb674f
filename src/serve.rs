//! Runs the service as a whole process: its threads, log, metrics, traces and signals.

use std::{path::Path, thread::available_parallelism};

use anyhow::Context;
use sd_notify::NotifyState;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use crate::{AppError, Reseq, Role, Running};
use config::Config;
use telemetry::{Log, Process, install_traces};

/// Runs until SIGTERM or SIGINT, then drains. SIGHUP reloads the configuration. In `with`, the caller may add parts to
/// the service, such as transforms. Starts its own threads, as many as configured.
pub fn run(
    path: Option<&Path>,
    roles: Vec<Role>,
    with: impl FnOnce(Reseq) -> Reseq,
) -> anyhow::Result<()> {
    let config = Config::load(path, std::env::vars())?;
    let cpus = available_parallelism().map_or(1, usize::from);
    let threads = threads(config.threads, cpus, &roles);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.context("the threads could not be started")?;
    runtime.block_on(serve(config, path, roles, with))
}

/// The number of threads. A sender delivers the messages of a lane one by one, so work for other lanes must not delay
/// it. In pods without a sender, more threads mostly wake each other: the pods share the machine with Redis.
fn threads(configured: usize, cpus: usize, roles: &[Role]) -> usize {
    match configured {
        0 if roles.contains(&Role::Sender) => cpus,
        0 => cpus.div_ceil(2),
        threads => threads,
    }
}

async fn serve(
    config: Config,
    path: Option<&Path>,
    roles: Vec<Role>,
    with: impl FnOnce(Reseq) -> Reseq,
) -> anyhow::Result<()> {
    let process = Process { pod: store::pod_name(), roles: Role::names(&roles) };
    let pod = process.pod.clone();
    let log = telemetry::install_log(config.log.is_json(), &config.log.level, process);
    let log = log.map_err(anyhow::Error::msg)?;
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
    let mut hangup = signal(SignalKind::hangup())?;
    let reseq = with(Reseq::new(config)).roles(roles).metrics(metrics).named(pod);
    let mut running = tokio::select! {
        running = reseq.start() => running?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    tell_systemd(&[NotifyState::Ready]);
    let watchdog = tokio::spawn(feed_watchdog());
    let ended = loop {
        tokio::select! {
            ended = running.ended() => break ended,
            _ = hangup.recv() => reload(&mut running, path, &log),
            _ = terminate.recv() => break stop(running).await,
            _ = interrupt.recv() => break stop(running).await,
        }
    };
    watchdog.abort();
    if let Some(traces) = traces {
        traces.end().await;
    }
    Ok(ended?)
}

async fn stop(running: Running) -> Result<(), AppError> {
    tell_systemd(&[NotifyState::Stopping]);
    running.stop().await
}

/// Reads the configuration again, and applies the changes that need no restart. If the configuration cannot be used,
/// changes nothing.
fn reload(running: &mut Running, path: Option<&Path>, log: &Log) {
    let now = NotifyState::monotonic_usec_now();
    tell_systemd(&now.map_or(vec![], |now| vec![NotifyState::Reloading, now]));
    let loaded = Config::load(path, std::env::vars()).map_err(|error| error.to_string());
    match loaded.and_then(|config| log.set(&config.log.level).map(|()| config)) {
        Err(error) => tracing::error!(error, "not reloaded: the configuration cannot be used"),
        Ok(config) => {
            let changes = running.reload(config);
            tracing::info!(changed = changes.reloaded.join(" "), "the configuration is reloaded");
            if !changes.at_start.is_empty() {
                let fields = changes.at_start.join(" ");
                tracing::warn!(fields, "changed, but taken over only by a restart");
            }
        }
    }
    tell_systemd(&[NotifyState::Ready]);
}

/// Reports the state of this process to systemd, if systemd started it.
fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd cannot be told how this process is");
    }
}

/// Shows systemd that the process can still run a task, twice in each watchdog interval of its unit.
async fn feed_watchdog() {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval(interval / 2);
    loop {
        tick.tick().await;
        tell_systemd(&[NotifyState::Watchdog]);
    }
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
