//! The result of a run, as one table.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::Duration,
};

use crate::{
    inject::Struck,
    level::Level,
    plan::{Kind, Planned, Topology},
    support::{
        examiner::{Anomalies, Anomaly, Found},
        journal::Journal,
        ledger::Ledger,
    },
};

/// A run with fewer acknowledged messages per second than this is void.
const THROUGHPUT_MIN: f64 = 30.0;

pub struct Report {
    pub topology: Topology,
    level: Level,
    seed: u64,
    planned_for: Duration,
    planned: Vec<Planned>,
    pub faults: Vec<Struck>,
    /// The real duration of the storm.
    pub storm: Duration,
    pub promised_in_storm: usize,
    pub drain: Duration,
    /// Dead letters.
    pub dead: u64,
    pub found: Found,
    pub anomalies: Anomalies,
    /// Steps that did not finish, in words.
    pub problems: Vec<String>,
    pub recoveries: BTreeMap<Kind, Vec<Option<Duration>>>,
    pub acknowledged: usize,
    duplicates: usize,
    again: usize,
    deliveries: usize,
}

impl Report {
    pub fn new(
        topology: Topology,
        level: Level,
        seed: u64,
        storm: Duration,
        planned: &[Planned],
    ) -> Report {
        Report {
            topology,
            level,
            seed,
            planned_for: storm,
            planned: planned.to_vec(),
            faults: Vec::new(),
            storm: Duration::ZERO,
            promised_in_storm: 0,
            drain: Duration::ZERO,
            dead: 0,
            found: Found::default(),
            anomalies: Anomalies::default(),
            problems: Vec::new(),
            recoveries: BTreeMap::new(),
            acknowledged: 0,
            duplicates: 0,
            again: 0,
            deliveries: 0,
        }
    }

    pub fn count(&mut self, ledger: &Ledger, journal: &Journal) {
        self.acknowledged = ledger.count();
        (self.duplicates, self.again) = (ledger.duplicates(), ledger.again());
        self.deliveries = journal.times().len();
    }

    fn throughput(&self) -> f64 {
        self.promised_in_storm as f64 / self.storm.as_secs_f64().max(1.0)
    }

    /// The number of faults that overlapped with another one.
    pub fn overlapping(&self) -> usize {
        let overlaps = |one: &Struck, other: &Struck| {
            one.planned.number != other.planned.number
                && one.begun < other.ended
                && other.begun < one.ended
        };
        let others = |one: &&Struck| self.faults.iter().any(|other| overlaps(one, other));
        self.faults.iter().filter(others).count()
    }

    /// Reasons why the run proves nothing, regardless of its result.
    pub fn void(&self) -> Vec<String> {
        let mut why = Vec::new();
        if self.throughput() < THROUGHPUT_MIN {
            why.push(format!("only {:.0} messages were acknowledged a second", self.throughput()));
        }
        if self.faults.len() < self.planned.len() {
            let (fired, planned) = (self.faults.len(), self.planned.len());
            why.push(format!("{fired} of {planned} faults fired"));
        }
        if self.found.repeats == 0 {
            why.push("no repeat was seen".to_owned());
        }
        why
    }

    pub fn is_sound(&self) -> bool {
        self.anomalies.is_empty() && self.void().is_empty()
    }

    /// The report as Markdown.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let kinds: BTreeSet<Kind> = self.faults.iter().map(|fault| fault.planned.kind).collect();
        writeln!(
            text,
            "Topology {}, durability {}, seed {}, a storm of {} s: {} faults of {} kinds, {} of them at the same \
             time as another.\n",
            self.topology,
            self.level,
            self.seed,
            self.planned_for.as_secs(),
            self.faults.len(),
            kinds.len(),
            self.overlapping(),
        )?;
        writeln!(text, "| messages | |\n| --- | ---: |")?;
        let Found { messages, repeats, later_attempts, placed_again, destroyed, .. } = &self.found;
        for (name, count) in [
            ("acknowledged", self.acknowledged),
            ("acknowledged again, as duplicates", self.duplicates),
            ("requests and connections made again", self.again),
            ("delivered, each for the first time", *messages),
            ("repeated, all recognisable", *repeats),
            ("delivered again at another place, promised at that one only", *placed_again),
            ("destroyed in Redis on purpose, and not delivered", *destroyed),
            ("deliveries that were not the first attempt", *later_attempts),
            ("deliveries in all", self.deliveries),
        ] {
            writeln!(text, "| {name} | {count} |")?;
        }
        writeln!(text, "| dead | {} |", self.dead)?;
        writeln!(
            text,
            "\n| fault | planned | fired | recovery p50, ms | max, ms |\n\
             | --- | ---: | ---: | ---: | ---: |"
        )?;
        for kind in self.planned.iter().map(|fault| fault.kind).collect::<BTreeSet<_>>() {
            self.write_kind(text, kind)?;
        }
        writeln!(text, "\n| anomaly | |\n| --- | ---: |")?;
        for anomaly in Anomaly::ALL {
            writeln!(text, "| {anomaly} | {} |", self.anomalies.count(anomaly))?;
        }
        writeln!(
            text,
            "\nAcknowledged in the storm: {:.0} a second. Drained in {:.1} s.",
            self.throughput(),
            self.drain.as_secs_f64()
        )?;
        for why in self.void() {
            writeln!(text, "\n**Void**: {why}.")?;
        }
        for told in &self.anomalies.told {
            writeln!(text, "\n    {told}")?;
        }
        Ok(())
    }

    fn write_kind(&self, text: &mut String, kind: Kind) -> std::fmt::Result {
        let planned = self.planned.iter().filter(|fault| fault.kind == kind).count();
        let none = Vec::new();
        let times = self.recoveries.get(&kind).unwrap_or(&none);
        let shown = |time: Option<&Option<Duration>>| match time {
            Some(Some(time)) => time.as_millis().to_string(),
            _ => "-".to_owned(),
        };
        let (half, max) =
            (shown(times.get(times.len().saturating_sub(1) / 2)), shown(times.last()));
        writeln!(text, "| {kind} | {planned} | {} | {half} | {max} |", times.len())
    }
}
