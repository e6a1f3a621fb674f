//! The report as text.

use std::fmt;

use super::report::{Column, OVERHEAD_MS_MAX, Report};
use crate::quantiles::Quantiles;

/// The width of the row names.
const NAME: usize = 36;
/// The width of a destination's column.
const WIDTH: usize = 26;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        writeln!(f)?;
        self.counts(f)?;
        writeln!(f)?;
        self.quantiles(f)?;
        writeln!(f)?;
        self.footing(f)
    }
}

impl Report {
    fn heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = &self.settings;
        writeln!(
            f,
            "One message every {} ms over HTTP and as many over TCP; processing takes {} to {} ms \
             (drawn, seed {}).",
            set.interval_ms, set.work_min_ms, set.work_max_ms, set.seed
        )?;
        writeln!(
            f,
            "Separate processes: 1 ingest, 2 processors, 2 senders; embedded Redis. Leases are \
             shorter than the defaults,\nso that a short run shows the recovery: processor {} ms, \
             sender {} ms.",
            set.processor_lease_ms, set.sender_lease_ms
        )?;
        for killed in &self.killed {
            let (name, pid, at_s) = (&killed.name, killed.pid, killed.at_s);
            writeln!(f, "SIGKILL after {at_s:.1} s: {name} (pid {pid}), not restarted.")?;
        }
        if self.killed.is_empty() {
            writeln!(f, "Nothing was killed.")?;
        }
        Ok(())
    }

    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |is: bool| if is { "yes" } else { "NO" }.to_owned();
        self.row(f, "", |column| column.destination.to_owned())?;
        self.row(f, "sent", |column| column.sent.to_string())?;
        self.row(f, "delivered", |column| column.delivered.to_string())?;
        self.row(f, "in order", |column| yes(column.in_order))?;
        self.row(f, "repeats, recognised as such", |column| column.repeats.to_string())?;
        if self.destinations.iter().any(|column| column.foreign > 0) {
            self.row(f, "not sent or not transformed", |column| column.foreign.to_string())?;
        }
        Ok(())
    }

    fn quantiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row(f, "in ms", |_| "p50 /    p99 /    max".to_owned())?;
        self.row(f, "latency", |column| numbers(column.latency, 0))?;
        self.row(f, "ideal for the same processing times", |column| numbers(column.ideal, 0))?;
        self.row(f, "overhead over the ideal", |column| numbers(column.overhead, 1))?;
        self.row(f, "one at a time (computed, not run)", |column| numbers(column.one_at_a_time, 0))
    }

    fn footing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overshoot = self.transformer_overshoot;
        writeln!(
            f,
            "Ideal: each message leaves when it and all before it are finished; from the drawn \
             times and the instants of\nsending. Part of the overhead is the transformer's own: it \
             held messages {:.1} ms (p99; max {:.1} ms) longer than drawn.",
            overshoot.p99_ms, overshoot.max_ms
        )?;
        writeln!(f, "Sent at most {:.1} ms behind the schedule.", self.sent_late_ms_max)?;
        for problem in &self.problems {
            writeln!(f, "Problem: {problem}")?;
        }
        if let Some(is_within) = self.every_message_within_15_ms {
            let max = self.destinations.iter().map(|column| column.overhead.max_ms);
            let (max, answer) = (max.fold(0.0, f64::max), if is_within { "yes" } else { "NO" });
            writeln!(
                f,
                "Every message within {OVERHEAD_MS_MAX:.0} ms of the ideal: {answer} \
                 (max {max:.1} ms)"
            )?;
        }
        let verdict = if self.complete_and_in_order { "yes" } else { "NO" };
        writeln!(f, "Complete and in order: {verdict}")
    }

    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        cell: impl Fn(&Column) -> String,
    ) -> fmt::Result {
        write!(f, "{name:<NAME$}")?;
        for column in &self.destinations {
            write!(f, "{:>WIDTH$}", cell(column))?;
        }
        writeln!(f)
    }
}

fn numbers(of: Quantiles, decimals: usize) -> String {
    format!("{:.decimals$} / {:>6.decimals$} / {:>6.decimals$}", of.p50_ms, of.p99_ms, of.max_ms)
}
