//! Every metric: its kind, its name, and the text that `/metrics` shows for it.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

use Kind::{Counter, Gauge, Histogram};

impl Kind {
    /// The name of the kind in Prometheus's text format.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
        }
    }
}

/// All metrics, in the order of docs/reference/metrics.md.
const ALL: &[(Kind, &str, &str)] = &[
    (Counter, "reseq_ingested_total", "Messages of producers that this process stored."),
    (Histogram, "reseq_ingest_batch_size", "Messages in one call to Redis that stores messages."),
    (Counter, "reseq_refused_total", "Messages refused after their destination was found."),
    (Gauge, "reseq_ingest_tcp_paused", "TCP connections that wait because there is no room."),
    (Gauge, "reseq_redis_memory_used_bytes", "Memory that Redis uses."),
    (Gauge, "reseq_redis_memory_max_bytes", "Memory that Redis may use; 0: no limit."),
    (Counter, "reseq_claimed_total", "Messages claimed by this process."),
    (Histogram, "reseq_claim_batch_size", "Messages of one claim that got some."),
    (Gauge, "reseq_slots_taken", "Slots of this processor in use or reserved."),
    (Gauge, "reseq_slots_max", "Slots of this processor."),
    (Histogram, "reseq_transform_seconds", "Duration of one attempt of a built-in transform."),
    (Counter, "reseq_transformed_total", "Attempts of built-in transforms that ended."),
    (Counter, "reseq_worker_results_total", "Results that workers returned."),
    (Histogram, "reseq_complete_batch_size", "Results in one call to Redis."),
    (Counter, "reseq_leases_requeued_total", "Leases requeued because the worker had gone."),
    (Counter, "reseq_reaped_leases_total", "Leases that expired, taken back by this process."),
    (Counter, "reseq_due_total", "Messages whose backoff or delay ended."),
    (Histogram, "reseq_release_batch_size", "Messages that one call to Redis released."),
    (Counter, "reseq_sender_handed_over_total", "Messages that a sender got with a wake-up."),
    (Histogram, "reseq_delivery_seconds", "Duration of one attempt to deliver."),
    (Histogram, "reseq_delivery_batch_size", "Messages of one attempt to deliver."),
    (Counter, "reseq_sender_deliveries_total", "Attempts to deliver that ended."),
    (Counter, "reseq_exhausted_total", "Messages given up at their delivery, or cancelled."),
    (Histogram, "reseq_end_to_end_seconds", "From arrival to acceptance by the receiver."),
    (
        Histogram,
        "reseq_resequencing_wait_seconds",
        "From the end of the processing to the first attempt to deliver.",
    ),
    (
        Histogram,
        "reseq_overhead_seconds",
        "Time to acceptance beyond the least that order, processing and delivery allow.",
    ),
    (Gauge, "reseq_partitions", "Partitions of the deployment."),
    (Gauge, "reseq_sender_partitions_owned", "Partitions that this sender owns."),
    (Counter, "reseq_sender_partitions_acquired_total", "Partitions that this sender took."),
    (
        Counter,
        "reseq_sender_partitions_ended_total",
        "Partitions that this sender gave back or lost.",
    ),
    (Gauge, "reseq_sender_deliveries_in_flight", "Messages that this sender is delivering now."),
    (Gauge, "reseq_places_taken", "Connections, look-ups and processes of expressions in use."),
    (Gauge, "reseq_places_max", "The most of these at a time."),
    (Gauge, "reseq_places_waiting", "Deliveries, transforms and keys that wait for one of these."),
    (Gauge, "reseq_pending", "Pending messages."),
    (Gauge, "reseq_pending_bytes", "Bytes of the bodies of pending messages, as they arrived."),
    (Gauge, "reseq_waiting", "Messages that wait for processing."),
    (Gauge, "reseq_leased", "Messages that a processor or worker holds."),
    (Gauge, "reseq_ready", "Processed messages that wait for their turn or are being delivered."),
    (Gauge, "reseq_delayed", "Messages that wait for their delay or backoff."),
    (Gauge, "reseq_halted", "Messages that wait for an operator."),
    (Gauge, "reseq_dead_letters", "Dead letters."),
    (Gauge, "reseq_dead_letters_max", "The most dead letters that the destination keeps."),
    (Gauge, "reseq_head_age_seconds", "Age of the oldest head of all lanes."),
    (Gauge, "reseq_needs_attention", "Destinations that need attention, by cause."),
    (
        Gauge,
        "reseq_needs_attention_messages",
        "Messages that the cause concerns, of the destinations with most.",
    ),
    (
        Counter,
        "reseq_blocked_seconds_total",
        "Time for which lanes had the same head, by what the head waited for.",
    ),
    (Histogram, "reseq_redis_call_seconds", "Duration of one call of a script."),
    (Histogram, "reseq_redis_call_blocks", "Scripts that one call to Redis ran."),
    (Counter, "reseq_redis_errors_total", "Calls that Redis did not carry out or confirm."),
    (
        Counter,
        "reseq_redis_confirmed_lost_total",
        "Servers that took over without writes that replicas had confirmed.",
    ),
    (Gauge, "reseq_damaged", "1 while Redis holds damaged data in this place."),
    (Counter, "reseq_wakes_total", "Wake-ups received over publish/subscribe."),
    (Gauge, "reseq_build_info", "1; the version of this process is a label."),
    (Gauge, "reseq_tasks", "Tasks of this process that run or wait."),
    (Gauge, "reseq_connections", "Open incoming connections."),
    (Counter, "reseq_connections_closed_total", "Connections closed before the client was done."),
    (Counter, "reseq_accept_errors_total", "Connections that could not be accepted."),
    (Counter, "reseq_audit_failed_total", "Actions that could not be added to the audit log."),
    (
        Gauge,
        "reseq_certificate_expiry_timestamp_seconds",
        "When the first certificate of a file ends, in seconds since 1970.",
    ),
    (
        Gauge,
        "reseq_peer_certificate_expiry_timestamp_seconds",
        "When the certificate ends that a receiver or Redis showed last, in seconds since 1970.",
    ),
    (Gauge, "reseq_token_expiry_timestamp_seconds", "When a token ends, in seconds since 1970."),
    (Counter, "process_cpu_seconds_total", "CPU time of this process."),
    (Gauge, "process_resident_memory_bytes", "Resident memory of this process."),
    (Gauge, "process_threads", "Threads of this process."),
    (Gauge, "process_start_time_seconds", "When this process began, in seconds since 1970."),
    (Gauge, "process_open_fds", "Open file descriptors of this process."),
    (Gauge, "process_max_fds", "File descriptors that this process may open."),
];

/// The help text of a metric.
pub(super) fn help(metric: &str) -> &'static str {
    ALL.iter().find(|(_, name, _)| *name == metric).map_or("", |(.., help)| help)
}

/// The kind of a metric.
pub(super) fn kind(metric: &str) -> Kind {
    ALL.iter().find(|(_, name, _)| *name == metric).map_or(Gauge, |(kind, ..)| *kind)
}

/// Registers the help texts of all metrics with the recorder.
pub(super) fn describe_all() {
    for (kind, name, help) in ALL {
        match kind {
            Counter => describe_counter!(*name, *help),
            Gauge => describe_gauge!(*name, *help),
            Histogram => describe_histogram!(*name, *help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_one_text_and_counters_end_in_total() {
        for (at, (kind, name, help)) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|(_, other, _)| other != name), "{name} is there twice");
            assert_eq!(*kind == Counter, name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.'), "{name}: {help}");
        }
    }
}
