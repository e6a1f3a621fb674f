//! Every metric's name, and the log. Nothing else spells a metric.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use metrics::{Counter, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

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

/// A batch of arrivals was stamped.
pub fn ingested(destination: &str, stamped: usize, batch: usize) {
    counter!("reseq_ingested_total", "destination" => destination.to_owned())
        .increment(stamped as u64);
    histogram!("reseq_ingest_batch_size").record(batch as f64);
}

/// An arrival was refused.
pub fn refused(destination: &str, code: &'static str) {
    counter!("reseq_refused_total", "destination" => destination.to_owned(), "code" => code)
        .increment(1);
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

/// Messages were claimed.
pub fn claimed(destination: &str, count: usize) {
    counter!("reseq_claimed_total", "destination" => destination.to_owned())
        .increment(count as u64);
    histogram!("reseq_claim_batch_size").record(count as f64);
}

/// Attempts at a destination's transforms. Looked up once for many.
#[derive(Clone)]
pub struct Transformed {
    destination: Arc<str>,
    seconds: Histogram,
    delivering: Counter,
}

impl Transformed {
    /// Those of this destination.
    pub fn of(destination: &str) -> Transformed {
        Transformed {
            destination: destination.into(),
            seconds: histogram!("reseq_transform_seconds", "destination" => destination.to_owned()),
            delivering: transformed(destination, "deliver"),
        }
    }

    /// One has ended: `deliver`, `drop`, `fail` or `abandoned`.
    pub fn note(&self, outcome: &'static str, took: Duration) {
        self.seconds.record(took);
        match outcome {
            "deliver" => self.delivering.increment(1),
            other => transformed(&self.destination, other).increment(1),
        }
    }
}

fn transformed(destination: &str, outcome: &'static str) -> Counter {
    let destination = destination.to_owned();
    counter!("reseq_transformed_total", "destination" => destination, "outcome" => outcome)
}

/// Messages in processing in this pod.
pub fn processing(count: usize) {
    gauge!("reseq_processing").set(count as f64);
}

/// An attempt at a delivery has ended: `accepted` or `refused`.
pub fn delivered(destination: &str, outcome: &'static str, took: Duration) {
    let destination = destination.to_owned();
    histogram!("reseq_delivery_seconds", "destination" => destination.clone()).record(took);
    counter!("reseq_sender_deliveries_total", "destination" => destination, "outcome" => outcome)
        .increment(1);
}

/// A message was given up at its delivery, or withdrawn after one: `halted`, `skipped`, `dropped` or
/// `cancelled`.
pub fn exhausted(destination: &str, outcome: &'static str) {
    let destination = destination.to_owned();
    counter!("reseq_exhausted_total", "destination" => destination, "outcome" => outcome)
        .increment(1);
}

/// How long each of these messages took from its arrival to its acceptance.
pub fn end_to_end(destination: &str, took: impl Iterator<Item = Duration>) {
    let seconds = histogram!("reseq_end_to_end_seconds", "destination" => destination.to_owned());
    took.for_each(|took| seconds.record(took));
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
pub fn damaged(place: &str, is_damaged: bool) {
    gauge!("reseq_damaged", "place" => place.to_owned()).set(f64::from(u8::from(is_damaged)));
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
    pub dead: u64,
}

/// The backlog of a destination, as whoever owns its partition sees it every few seconds. An owner that
/// was writes the default once more, so that the sum over all pods stays true.
pub fn backlog(destination: &str, backlog: Backlog) {
    let Backlog { pending, pending_bytes, halted, dead } = backlog;
    let set = |name: &'static str, value: u64| {
        gauge!(name, "destination" => destination.to_owned()).set(value as f64);
    };
    set("reseq_pending", pending);
    set("reseq_pending_bytes", pending_bytes);
    set("reseq_halted", halted);
    set("reseq_dead_letters", dead);
}
