//! The report: the figures, and whether the demo met its targets.

use std::time::Duration;

use serde::Serialize;

use super::{
    DemoArgs,
    faults::Killed,
    ledger::Ledger,
    plan::{Stream, ideal_departures, one_at_a_time_departures},
    setup::{PROCESSOR_LEASE_MS, SENDER_LEASE_MS},
};
use crate::quantiles::Quantiles;

/// Without kills, no message may leave later than this after its ideal time.
pub const OVERHEAD_MS_MAX: f64 = 15.0;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// True if every message arrived, first deliveries were in order, and no other messages arrived.
    pub complete_and_in_order: bool,
    /// The settings of the demo.
    pub settings: Settings,
    /// One column per destination.
    pub destinations: Vec<Column>,
    /// How much longer than planned the transformer took.
    pub transformer_overshoot: Quantiles,
    /// The longest delay of a message behind its schedule.
    pub sent_late_ms_max: f64,
    /// The processes that were killed.
    pub killed: Vec<Killed>,
    /// Without kills: true if every message left within 15 ms of its ideal time.
    pub every_message_within_15_ms: Option<bool>,
    /// Problems besides the messages, as text.
    pub problems: Vec<String>,
}

/// The settings of the demo.
#[derive(Debug, Serialize)]
pub struct Settings {
    pub messages_per_stream: usize,
    pub interval_ms: u64,
    pub work_min_ms: u64,
    pub work_max_ms: u64,
    pub seed: u64,
    pub processor_lease_ms: u64,
    pub sender_lease_ms: u64,
}

/// The figures of one destination.
#[derive(Debug, Serialize)]
pub struct Column {
    pub destination: &'static str,
    pub sent: usize,
    pub delivered: usize,
    pub in_order: bool,
    pub repeats: usize,
    /// Deliveries of messages that were not sent, or not transformed.
    pub foreign: usize,
    /// From just before sending to arrival at the receiver.
    pub latency: Quantiles,
    /// The latency if each message leaves when it and all messages before it are finished.
    pub ideal: Quantiles,
    /// The latency of each message minus its ideal latency.
    pub overhead: Quantiles,
    /// The latency if each message starts when the message before it has left. Computed, not measured.
    pub one_at_a_time: Quantiles,
}

impl Report {
    /// Computes the report from the record.
    pub fn of(
        args: &DemoArgs,
        ledger: &Ledger,
        killed: Vec<Killed>,
        problems: Vec<String>,
    ) -> Report {
        let destinations: Vec<Column> =
            Stream::ALL.into_iter().map(|stream| Column::of(ledger, stream)).collect();
        let complete_and_in_order =
            destinations.iter().all(|column| column.is_complete_and_in_order(ledger.messages()));
        let overhead_max = destinations.iter().map(|column| column.overhead.max_ms);
        let is_within = overhead_max.fold(0.0, f64::max) <= OVERHEAD_MS_MAX;
        Report {
            complete_and_in_order,
            settings: Settings {
                messages_per_stream: args.messages,
                interval_ms: args.interval.as_millis() as u64,
                work_min_ms: args.work_min.as_millis() as u64,
                work_max_ms: args.work_max.as_millis() as u64,
                seed: args.seed,
                processor_lease_ms: PROCESSOR_LEASE_MS,
                sender_lease_ms: SENDER_LEASE_MS,
            },
            every_message_within_15_ms: (args.kills == 0)
                .then_some(complete_and_in_order && is_within),
            destinations,
            transformer_overshoot: Quantiles::of(ledger.work().overshoot_ms),
            sent_late_ms_max: ms(ledger.late_max()),
            killed,
            problems,
        }
    }

    /// True if the demo had no problems.
    pub fn is_flawless(&self) -> bool {
        self.complete_and_in_order && self.problems.is_empty()
    }
}

impl Column {
    fn of(ledger: &Ledger, stream: Stream) -> Column {
        let (sent, work) = (ledger.sent(stream), ledger.plan().work(stream));
        let judged = ledger.judge(stream);
        let waits = |departures: Vec<Duration>| -> Vec<f64> {
            departures.iter().zip(&sent).map(|(left, sent)| ms(*left) - ms(*sent)).collect()
        };
        let ideal = waits(ideal_departures(&sent, work));
        // A message that was not sent cannot arrive, so the shorter list decides.
        let arrived = judged.first.iter().zip(&sent).zip(&ideal);
        let pairs: Vec<(f64, f64)> = arrived
            .filter_map(|((at, sent), ideal)| Some((ms((*at)?) - ms(*sent), *ideal)))
            .collect();
        Column {
            destination: stream.destination(),
            sent: sent.len(),
            delivered: judged.delivered(),
            in_order: judged.in_order,
            repeats: judged.repeats,
            foreign: judged.foreign,
            latency: Quantiles::of(pairs.iter().map(|(latency, _)| *latency).collect()),
            overhead: Quantiles::of(pairs.iter().map(|(latency, ideal)| latency - ideal).collect()),
            one_at_a_time: Quantiles::of(waits(one_at_a_time_departures(&sent, work))),
            ideal: Quantiles::of(ideal),
        }
    }

    fn is_complete_and_in_order(&self, messages: usize) -> bool {
        self.sent == messages && self.delivered == messages && self.in_order && self.foreign == 0
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
