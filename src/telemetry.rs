//! Every metric's name, and the log. Nothing else spells a metric.

mod by_destination;

use std::{io::IsTerminal, sync::Arc, time::Duration};

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use by_destination::Series;
pub use by_destination::{Knows, forget_gone, render_destinations};

/// The buckets of all durations, in seconds.
const SECONDS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];
/// The buckets of all sizes of batches.
const COUNTS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0, 1024.0];

/// Starts to collect metrics in this process; the handle renders them for Prometheus.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_batch_size".into()), &COUNTS)?
        .install_recorder()?;
    Ok(handle)
}

/// Starts the log, to standard error. `RESEQ_LOG` sets what is logged, as in `info,reseq=debug`.
pub fn install_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RESEQ_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // A library's host may have installed its own before.
    let _ = log.try_init();
}

/// A script was called.
pub fn redis_call(transition: &'static str, took: Duration, ok: bool) {
    histogram!("reseq_redis_call_seconds", "transition" => transition).record(took);
    if !ok {
        counter!("reseq_redis_errors_total", "transition" => transition).increment(1);
    }
}

/// A Redis took over that lacks writes that replicas had confirmed.
pub fn confirmed_lost() {
    counter!("reseq_redis_confirmed_lost_total").increment(1);
}

/// A batch of arrivals was stamped.
pub fn ingested(destination: &str, stamped: usize, batch: usize) {
    by_destination::of(destination).add("reseq_ingested_total", stamped as u64);
    histogram!("reseq_ingest_batch_size").record(batch as f64);
}

/// An arrival was refused.
pub fn refused(destination: &str, code: &'static str) {
    let key = ("reseq_refused_total", Some(("code", code)));
    by_destination::of(destination).add_labelled(key, 1);
}

/// What Redis uses of its memory, and what it may use (0: no limit), in bytes.
pub fn redis_memory(used: u64, max: u64) {
    gauge!("reseq_redis_memory_used_bytes").set(used as f64);
    gauge!("reseq_redis_memory_max_bytes").set(max as f64);
}

/// Counts a TCP connection that waits for room, until it is dropped.
#[derive(Debug)]
pub struct TcpPaused(());

impl TcpPaused {
    /// One more waits.
    pub fn begin() -> TcpPaused {
        gauge!("reseq_ingest_tcp_paused").increment(1.0);
        TcpPaused(())
    }
}

impl Drop for TcpPaused {
    fn drop(&mut self) {
        gauge!("reseq_ingest_tcp_paused").decrement(1.0);
    }
}

/// Counts a connection that came in, until it is dropped.
#[derive(Debug)]
pub struct ConnectionOpen(&'static str);

impl ConnectionOpen {
    /// One more is open at this listener: `http` or `tcp`.
    pub fn begin(listener: &'static str) -> ConnectionOpen {
        gauge!("reseq_connections", "listener" => listener).increment(1.0);
        ConnectionOpen(listener)
    }
}

impl Drop for ConnectionOpen {
    fn drop(&mut self) {
        gauge!("reseq_connections", "listener" => self.0).decrement(1.0);
    }
}

/// A connection was closed, or a request on it refused, before its client was done: `slow_head`,
/// `slow_body`, `slow_frame`, `idle`, `displaced` or `full`.
pub fn connection_closed(reason: &'static str) {
    counter!("reseq_connections_closed_total", "reason" => reason).increment(1);
}

/// A connection could not be accepted, such as for want of a file descriptor.
pub fn accept_failed(listener: &'static str) {
    counter!("reseq_accept_errors_total", "listener" => listener).increment(1);
}

/// Messages were given back because the answer that named them is known not to have arrived.
pub fn requeued(destination: &str, count: usize) {
    counter!("reseq_leases_requeued_total", "destination" => destination.to_owned())
        .increment(count as u64);
}

/// Messages were claimed.
pub fn claimed(destination: &str, count: usize) {
    by_destination::of(destination).add("reseq_claimed_total", count as u64);
    histogram!("reseq_claim_batch_size").record(count as f64);
}

/// Attempts at a destination's transforms. Looked up once for many.
#[derive(Clone)]
pub struct Transformed(Arc<Series>);

impl Transformed {
    /// Those of this destination.
    pub fn of(destination: &str) -> Transformed {
        Transformed(by_destination::of(destination))
    }

    /// One has ended: `deliver`, `drop`, `fail` or `abandoned`.
    pub fn note(&self, outcome: &'static str, took: Duration) {
        self.0.record("reseq_transform_seconds", took);
        self.0.add_labelled(("reseq_transformed_total", Some(("outcome", outcome))), 1);
    }
}

/// Messages in processing in this pod.
pub fn processing(count: usize) {
    gauge!("reseq_processing").set(count as f64);
}

/// An attempt at a delivery has ended: `accepted` or `refused`.
pub fn delivered(destination: &str, outcome: &'static str, took: Duration) {
    let series = by_destination::of(destination);
    series.record("reseq_delivery_seconds", took);
    series.add_labelled(("reseq_sender_deliveries_total", Some(("outcome", outcome))), 1);
}

/// A message was given up at its delivery, or withdrawn after one: `halted`, `dead_lettered`, `dropped` or
/// `cancelled`.
pub fn exhausted(destination: &str, outcome: &'static str) {
    let key = ("reseq_exhausted_total", Some(("outcome", outcome)));
    by_destination::of(destination).add_labelled(key, 1);
}

/// How long each of these messages took from its arrival to its acceptance.
pub fn end_to_end(destination: &str, took: impl Iterator<Item = Duration>) {
    let series = by_destination::of(destination);
    took.for_each(|took| series.record("reseq_end_to_end_seconds", took));
}

/// Partitions that this pod owns.
pub fn owned(count: usize) {
    gauge!("reseq_sender_partitions_owned").set(count as f64);
}

/// Deliveries that this pod has in flight.
pub fn delivering(count: usize) {
    gauge!("reseq_sender_deliveries_in_flight").set(count as f64);
}

/// A wake-up was heard.
pub fn wake_heard() {
    counter!("reseq_wakes_total").increment(1);
}

/// Calls for a destination (or for a key that belongs to none) fail for good, or no longer do.
pub fn damaged(location: &str, is_damaged: bool) {
    gauge!("reseq_damaged", "place" => location.to_owned()).set(f64::from(u8::from(is_damaged)));
}

/// Leases and delays that were taken up again.
pub fn reaped(leases: usize, delays: usize) {
    counter!("reseq_reaped_leases_total").increment(leases as u64);
    counter!("reseq_due_total").increment(delays as u64);
}

/// How much of a destination is on its way, and how much of it needs a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Messages that are not gone.
    pub pending: u64,
    /// The bytes of their bodies as they arrived.
    pub pending_bytes: u64,
    /// Messages whose attempts are used up.
    pub halted: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// The backlog of a destination, as whoever owns its partition sees it every few seconds. An owner that
/// was says none, so that the sum over all pods stays true.
pub fn backlog(destination: &str, backlog: Option<Backlog>) {
    by_destination::set_backlog(destination, backlog);
}

/// Tasks of this process that are not over.
pub fn tasks(count: usize) {
    gauge!("reseq_tasks").set(count as f64);
}
