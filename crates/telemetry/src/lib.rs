//! All metrics, and the log. Other crates do not name metrics, except the harness, which reads two.

mod backlogs;
mod by_destination;
mod failures;
mod log;
mod log_limit;
mod names;
mod one_line;
mod others;
#[cfg(target_os = "linux")]
mod process;
mod render;
mod traces;

use std::{sync::Arc, time::Duration};

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub use backlogs::Backlog;
pub use by_destination::{Knows, forget_gone};
use by_destination::{REGISTRY, Series};
pub use failures::{Failed, Failures, RECEIVERS, TRANSFORMS, WORKERS};
pub use log::{Log, Process, check_level, install_log};
use render::label;
pub use traces::{
    Noted, SpanOf, TracesEnd, TracesError, begin_trace, install_traces, is_traced, note_given_up,
    note_ingest, note_span, note_wait, span_of, time_of,
};

/// Histogram buckets for durations, in seconds.
const SECONDS: [f64; 20] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 900.0, 1800.0, 3600.0,
];
/// Histograms of single attempts and calls use only this many of the buckets.
const SHORT: usize = 16;
/// Histogram buckets for batch sizes.
const COUNTS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0, 1024.0];

/// Starts to collect metrics in this process. The handle renders them for Prometheus.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS[..SHORT])?
        .set_buckets_for_metric(Matcher::Suffix("_batch_size".into()), &COUNTS)?
        .set_buckets_for_metric(Matcher::Full("reseq_redis_call_blocks".into()), &COUNTS)?
        .install_recorder()?;
    names::describe_all();
    begin_counters();
    gauge!("reseq_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Counters of rare events begin at 0. Otherwise Prometheus would not see the first event as an increase.
fn begin_counters() {
    counter!("reseq_redis_confirmed_lost_total").increment(0);
    counter!("reseq_reaped_leases_total").increment(0);
    counter!("reseq_audit_failed_total").increment(0);
    for reason in ["full", "displaced"] {
        counter!("reseq_connections_closed_total", "reason" => reason).increment(0);
    }
}

/// Counts a call of a script: Redis answered, or the call failed.
pub fn redis_call(transition: &'static str, took: Duration, ok: bool) {
    histogram!("reseq_redis_call_seconds", "transition" => transition).record(took);
    if !ok {
        counter!("reseq_redis_errors_total", "transition" => transition).increment(1);
    }
}

/// Counts failed Redis commands outside scripts.
pub fn redis_query_failed() {
    counter!("reseq_redis_errors_total", "transition" => "query").increment(1);
}

/// Records that one call to Redis ran this many scripts.
pub fn redis_blocks(count: usize) {
    histogram!("reseq_redis_call_blocks").record(count as f64);
}

/// Counts a Redis server that became primary without writes that replicas had confirmed.
pub fn confirmed_lost() {
    counter!("reseq_redis_confirmed_lost_total").increment(1);
}

/// Counts a batch of stamped arrivals.
pub fn ingested(destination: &str, stamped: usize, batch: usize) {
    by_destination::of(destination).add("reseq_ingested_total", stamped as u64);
    histogram!("reseq_ingest_batch_size").record(batch as f64);
}

/// Counts a refused arrival.
pub fn refused(destination: &str, code: &'static str) {
    let key = ("reseq_refused_total", Some(("code", code)));
    by_destination::of(destination).add_labelled(key, 1);
}

/// Sets the memory use and limit of Redis (0: no limit), in bytes.
pub fn redis_memory(used: u64, max: u64) {
    gauge!("reseq_redis_memory_used_bytes").set(used as f64);
    gauge!("reseq_redis_memory_max_bytes").set(max as f64);
}

/// Counts a TCP connection that waits because its frames were refused temporarily, until dropped.
#[derive(Debug)]
pub struct TcpPaused(());

impl TcpPaused {
    /// Call when the connection begins to wait.
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

/// Counts an incoming connection, until dropped.
#[derive(Debug)]
pub struct ConnectionOpen(&'static str);

impl ConnectionOpen {
    /// A connection opened at this listener: `http` or `tcp`.
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

/// Counts a connection that was closed, or whose request was refused, before the client was done: `handshake`,
/// `slow_head`, `slow_body`, `slow_frame`, `slow_auth`, `idle`, `displaced` or `full`.
pub fn connection_closed(reason: &'static str) {
    counter!("reseq_connections_closed_total", "reason" => reason).increment(1);
}

/// Counts an action of an operator that could not be added to the audit log.
pub fn audit_failed() {
    counter!("reseq_audit_failed_total").increment(1);
}

/// Counts a connection that could not be accepted, for example because no file descriptor was free.
pub fn accept_failed(listener: &'static str) {
    counter!("reseq_accept_errors_total", "listener" => listener).increment(1);
}

/// Counts messages that were requeued because the answer with their leases was lost.
pub fn requeued(destination: &str, count: usize) {
    counter!("reseq_leases_requeued_total", "destination" => destination.to_owned())
        .increment(count as u64);
}

/// Counts claimed messages.
pub fn claimed(destination: &str, count: usize) {
    by_destination::of(destination).add("reseq_claimed_total", count as u64);
    histogram!("reseq_claim_batch_size").record(count as f64);
}

/// Metrics of a destination's transform attempts. Look them up once, for many attempts.
#[derive(Clone)]
pub struct Transformed(Arc<Series>);

impl Transformed {
    /// The metrics of this destination.
    pub fn of(destination: &str) -> Transformed {
        Transformed(by_destination::of(destination))
    }

    /// Counts an attempt that ended: `deliver`, `drop`, `fail` or `abandoned`.
    pub fn note(&self, outcome: &'static str, took: Duration) {
        self.0.record("reseq_transform_seconds", took);
        self.0.add_labelled(("reseq_transformed_total", Some(("outcome", outcome))), 1);
    }
}

/// Records that one call to Redis completes this many attempts.
pub fn completing(batch: usize) {
    histogram!("reseq_complete_batch_size").record(batch as f64);
}

/// Counts results of workers: `completed` (also a drop), `failed` or `requeued`; `stale` if the leases had expired.
pub fn worker_results(destination: &str, outcome: &'static str, count: usize) {
    if count > 0 {
        let key = ("reseq_worker_results_total", Some(("outcome", outcome)));
        by_destination::of(destination).add_labelled(key, count as u64);
    }
}

/// Sets the slots of this processor for transforms of this kind: the slots in use or reserved, and all slots.
pub fn slots(of: &'static str, taken: usize, all: usize) {
    gauge!("reseq_slots_taken", "of" => of).set(taken as f64);
    gauge!("reseq_slots_max", "of" => of).set(all as f64);
}

/// Counts a delivery attempt of this many messages that ended: `accepted` or `refused`.
pub fn delivered(destination: &str, outcome: &'static str, took: Duration, batch: usize) {
    histogram!("reseq_delivery_batch_size").record(batch as f64);
    let series = by_destination::of(destination);
    series.record("reseq_delivery_seconds", took);
    series.add_labelled(("reseq_sender_deliveries_total", Some(("outcome", outcome))), 1);
}

/// Counts a message whose delivery ended without success: `halted`, `dead_lettered`, `dropped` or `cancelled`.
pub fn exhausted(destination: &str, outcome: &'static str) {
    let key = ("reseq_exhausted_total", Some(("outcome", outcome)));
    by_destination::of(destination).add_labelled(key, 1);
}

/// The times of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From arrival to acceptance by the receiver.
    pub end_to_end: Duration,
    /// From the end of processing to the first attempt to deliver the message, if both are known.
    pub resequencing_wait: Option<Duration>,
    /// How much later the receiver accepted the message than order, processing and delivery require, if known.
    pub overhead: Option<Duration>,
}

/// Records the times of the accepted messages of one delivery.
pub fn accepted(destination: &str, all: impl Iterator<Item = Times>) {
    by_destination::of(destination).record_all(all.flat_map(|times| {
        let wait = times.resequencing_wait.map(|wait| ("reseq_resequencing_wait_seconds", wait));
        let overhead = times.overhead.map(|overhead| ("reseq_overhead_seconds", overhead));
        [Some(("reseq_end_to_end_seconds", times.end_to_end)), wait, overhead].into_iter().flatten()
    }));
}

/// Sets the number of partitions of the deployment.
pub fn partitions(count: u16) {
    gauge!("reseq_partitions").set(f64::from(count));
}

/// Sets the number of partitions that this pod owns.
pub fn owned(count: usize) {
    gauge!("reseq_sender_partitions_owned").set(count as f64);
}

/// Counts a partition that this pod took.
pub fn partition_acquired() {
    counter!("reseq_sender_partitions_acquired_total").increment(1);
}

/// Counts a partition that this pod no longer owns: the pod gave it back, or lost it.
pub fn partition_ended(was_given_back: bool) {
    let reason = if was_given_back { "given_back" } else { "lost" };
    counter!("reseq_sender_partitions_ended_total", "reason" => reason).increment(1);
}

/// Records that a call released this many messages.
pub fn released(count: usize) {
    histogram!("reseq_release_batch_size").record(count as f64);
}

/// Counts a message that a sender got with a wake-up, and does not need to read from Redis.
pub fn handed_over() {
    counter!("reseq_sender_handed_over_total").increment(1);
}

/// Sets the number of messages that this pod is delivering now. A batch counts each of its messages.
pub fn delivering(count: usize) {
    gauge!("reseq_sender_deliveries_in_flight").set(count as f64);
}

/// Counts a received wake-up.
pub fn wake_heard() {
    counter!("reseq_wakes_total").increment(1);
}

/// Notes that calls for a destination (or for a key of no destination) began to fail because of damage, or work again.
pub fn damaged(location: &str, is_damaged: bool) {
    gauge!("reseq_damaged", "place" => location.to_owned()).set(f64::from(u8::from(is_damaged)));
}

/// Counts recovered messages: expired leases, and delays that are over.
pub fn reaped(leases: usize, delays: usize) {
    counter!("reseq_reaped_leases_total").increment(leases as u64);
    counter!("reseq_due_total").increment(delays as u64);
}

/// Sets the backlog of a destination, as the owner of its partition reads it every few seconds. A former owner passes
/// `None`, so that the sum over all pods stays correct.
pub fn backlog(destination: &str, backlog: Option<Backlog>) {
    REGISTRY.backlogs.set(destination, backlog);
}

/// Sets the destinations of this pod that need attention for this cause, each with the number of messages.
pub fn needs_attention(cause: &'static str, destinations: Vec<(&str, u64)>) {
    gauge!("reseq_needs_attention", "cause" => cause).set(destinations.len() as f64);
    REGISTRY.backlogs.set_attention(cause, destinations);
}

/// Sets the age of the oldest head; `None` if no message is pending, or this pod no longer reports the destination.
pub fn head_age(destination: &str, age: Option<Duration>) {
    REGISTRY.backlogs.set_head_age(destination, age);
}

/// Counts the time for which this cause blocked the head of a lane.
pub fn blocked(destination: &str, cause: &'static str, time: Duration) {
    let key = ("reseq_blocked_seconds_total", Some(("cause", cause)));
    by_destination::of(destination).add_seconds(key, time.as_secs_f64());
}

/// Renders the metrics that the recorder does not hold, in Prometheus's text format. `ends`: the ends of certificates
/// and tokens.
pub fn render_others(ends: &[End]) -> String {
    let mut text = REGISTRY.render();
    for metric in [CERTIFICATE_END, PEER_END, TOKEN_END] {
        let of_it = ends.iter().filter(|end| end.metric == metric);
        let mut series = of_it.map(|end| (end.labels.clone(), end.at_ms as f64 / 1e3)).peekable();
        if series.peek().is_some() {
            render::render(&mut text, metric, series);
        }
    }
    #[cfg(target_os = "linux")]
    text.push_str(&process::render_process());
    text
}

const CERTIFICATE_END: &str = "reseq_certificate_expiry_timestamp_seconds";
const PEER_END: &str = "reseq_peer_certificate_expiry_timestamp_seconds";
const TOKEN_END: &str = "reseq_token_expiry_timestamp_seconds";

/// The end of a certificate or token, with the labels of its series.
#[derive(Debug)]
pub struct End {
    metric: &'static str,
    labels: String,
    at_ms: u64,
}

impl End {
    /// The first end of a certificate in the file that this configuration field names.
    pub fn of_certificate(field: &str, file: &str, at_ms: u64) -> End {
        let labels = [label("field", field), label("file", file)].join(",");
        End { metric: CERTIFICATE_END, labels, at_ms }
    }

    /// The end of the certificate that this host showed last.
    pub fn of_peer(host: &str, at_ms: u64) -> End {
        End { metric: PEER_END, labels: label("host", host), at_ms }
    }

    /// The end of the token with this id and name.
    pub fn of_token(id: &str, name: &str, at_ms: u64) -> End {
        let labels = [label("id", id), label("name", name)].join(",");
        End { metric: TOKEN_END, labels, at_ms }
    }
}

/// Sets the number of running tasks of this process.
pub fn tasks(count: usize) {
    gauge!("reseq_tasks").set(count as f64);
}
