//! Metric series per destination. They end with the destination, and their number is limited.
//!
//! At most [`SERIES_MAX`] destinations have their own series; the others share the series [`REST`]. For backlogs, the
//! destinations with the largest backlogs have their own series. A busy destination without series replaces an idle
//! one, or one that is counted much less often.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use super::{SECONDS, SHORT, backlogs::Backlogs, names, others::Others};

/// The most destinations with their own series.
pub const SERIES_MAX: usize = 1000;
/// The label of the series that all other destinations share. No destination can have this name.
pub const REST: &str = "*";
/// If there is no space, a destination that was idle for this long loses its series.
const IDLE: Duration = Duration::from_secs(300);
/// The shortest time between two searches for idle destinations, because each search reads all series.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A metric, and its second label, if it has one.
type Key = (&'static str, Option<(&'static str, &'static str)>);

#[derive(Default)]
struct Values {
    counters: BTreeMap<Key, u64>,
    /// Counters of seconds.
    seconds: BTreeMap<Key, f64>,
    durations: BTreeMap<&'static str, Durations>,
}

/// The buckets of a histogram. The wait of a message may be long; an attempt has a time limit.
fn bounds(metric: &str) -> &'static [f64] {
    match metric {
        "reseq_delivery_seconds" | "reseq_transform_seconds" => &SECONDS[..SHORT],
        _ => &SECONDS,
    }
}

/// A histogram of durations.
#[derive(Default, Clone)]
struct Durations {
    /// The counts by bucket, not cumulative. The last used bucket is for values above all [`bounds`].
    counts: [u64; SECONDS.len() + 1],
    sum: f64,
}

/// The series of one destination.
pub(super) struct Series {
    values: Mutex<Values>,
    /// When the series were last used, in ms since this process began to count.
    touched_ms: AtomicU64,
    /// Number of uses since the last search for space.
    uses: AtomicU64,
}

impl Series {
    fn new(now_ms: u64) -> Arc<Series> {
        let (touched_ms, uses) = (AtomicU64::new(now_ms), AtomicU64::new(1));
        Arc::new(Series { values: Mutex::default(), touched_ms, uses })
    }

    pub(super) fn add(&self, metric: &'static str, count: u64) {
        self.add_labelled((metric, None), count);
    }

    pub(super) fn add_labelled(&self, key: Key, count: u64) {
        let mut values = self.values.lock();
        *values.counters.entry(key).or_default() += count;
    }

    pub(super) fn add_seconds(&self, key: Key, seconds: f64) {
        let mut values = self.values.lock();
        *values.seconds.entry(key).or_default() += seconds;
    }

    pub(super) fn record(&self, metric: &'static str, took: Duration) {
        self.record_all([(metric, took)]);
    }

    pub(super) fn record_all(&self, all: impl IntoIterator<Item = (&'static str, Duration)>) {
        let mut values = self.values.lock();
        for (metric, took) in all {
            let seconds = took.as_secs_f64();
            let at = bounds(metric).partition_point(|bound| *bound < seconds);
            let durations = values.durations.entry(metric).or_default();
            durations.counts[at] += 1;
            durations.sum += seconds;
        }
    }
}

/// All series of destinations.
pub(super) struct Registry {
    series_max: usize,
    began: Instant,
    series: RwLock<HashMap<Arc<str>, Arc<Series>>>,
    rest: Arc<Series>,
    /// Destinations without series of their own.
    others: Others,
    looked: Mutex<Option<Instant>>,
    pub(super) backlogs: Backlogs,
    /// The registered functions that know which destinations exist.
    known: Mutex<Vec<Weak<IsKnown>>>,
}

type IsKnown = dyn Fn(&str) -> bool + Send + Sync;

/// The registration of a function that knows which destinations exist. Dropping this removes it.
#[derive(Clone)]
pub struct Knows(
    #[expect(dead_code, reason = "the registry sees whether it is still there")] Arc<IsKnown>,
);

impl Knows {
    /// Registers a function. [`forget_gone`] removes the series of destinations that no function knows.
    pub fn new(is_known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Knows {
        REGISTRY.knows(is_known)
    }
}

/// The series of this process.
pub(super) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new(SERIES_MAX));

/// The series of this destination, or the shared ones if it has none.
pub(super) fn of(destination: &str) -> Arc<Series> {
    REGISTRY.of(destination)
}

/// Removes the series of destinations that are gone.
pub fn forget_gone() {
    REGISTRY.forget_gone();
}

impl Registry {
    fn new(series_max: usize) -> Registry {
        Registry {
            series_max,
            began: Instant::now(),
            series: RwLock::default(),
            rest: Series::new(0),
            others: Others::default(),
            looked: Mutex::default(),
            backlogs: Backlogs::default(),
            known: Mutex::default(),
        }
    }

    fn knows(&self, is_known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Knows {
        let is_known: Arc<IsKnown> = Arc::new(is_known);
        let mut known = self.known.lock();
        known.push(Arc::downgrade(&is_known));
        Knows(is_known)
    }

    fn of(&self, destination: &str) -> Arc<Series> {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let held = self.series.read();
        let found = held.get(destination).cloned();
        let is_full = held.len() >= self.series_max;
        drop(held);
        if let Some(found) = found {
            found.touched_ms.store(now_ms, Ordering::Relaxed);
            found.uses.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        if is_full && !self.make_room(now_ms) {
            self.others.note(destination);
            return self.rest.clone();
        }
        let mut held = self.series.write();
        if held.len() >= self.series_max {
            return self.rest.clone();
        }
        held.entry(destination.into()).or_insert_with(|| Series::new(now_ms)).clone()
    }

    /// Removes idle series. False if there is still no space.
    fn make_room(&self, now_ms: u64) -> bool {
        let mut looked = self.looked.lock();
        if looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return false;
        }
        *looked = Some(Instant::now());
        drop(looked);
        let has_room = self.end_idle(now_ms, IDLE);
        if !has_room {
            self.replace_least_used(now_ms);
        }
        has_room
    }

    /// Gives series to the destinations without series that were counted most. Each replaces a destination that was
    /// used half as often or less since the last call.
    fn replace_least_used(&self, now_ms: u64) {
        let others = self.others.take();
        let mut held = self.series.write();
        let uses =
            held.iter().map(|(name, one)| (one.uses.swap(0, Ordering::Relaxed), name.clone()));
        let mut least_used: Vec<_> = uses.collect();
        least_used.sort_unstable();
        for ((name, count), (uses, replaced)) in others.into_iter().zip(least_used) {
            if count < 2 * uses.max(1) {
                return;
            }
            held.remove(&replaced);
            held.insert(name, Series::new(now_ms));
        }
    }

    fn end_idle(&self, now_ms: u64, idle: Duration) -> bool {
        let oldest_ms = now_ms.saturating_sub(idle.as_millis() as u64);
        let mut held = self.series.write();
        held.retain(|_, series| series.touched_ms.load(Ordering::Relaxed) >= oldest_ms);
        held.len() < self.series_max
    }

    /// Removes the series of destinations that no registered `Knows` recognises. The pod that reports a destination
    /// removes its gauges of backlogs (crates/sender/src/reporter/backlogs.rs).
    fn forget_gone(&self) {
        let mut known = self.known.lock();
        known.retain(|one| one.strong_count() > 0);
        let known: Vec<Arc<IsKnown>> = known.iter().filter_map(Weak::upgrade).collect();
        let names: Vec<Arc<str>> = {
            let held = self.series.read();
            held.keys().filter(|name| !known.iter().any(|knows| knows(name))).cloned().collect()
        };
        if !names.is_empty() {
            let mut held = self.series.write();
            names.iter().for_each(|name| drop(held.remove(name)));
        }
    }

    /// The series, in Prometheus's text format.
    pub(super) fn render(&self) -> String {
        let held = self.series.read();
        let mut all: Vec<(Arc<str>, Arc<Series>)> =
            held.iter().map(|(name, series)| (name.clone(), series.clone())).collect();
        drop(held);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.push((REST.into(), self.rest.clone()));
        let mut counters: BTreeMap<&str, String> = BTreeMap::new();
        let mut durations: BTreeMap<&str, String> = BTreeMap::new();
        for (name, series) in &all {
            let values = series.values.lock();
            let counts = values.counters.iter().map(|(key, count)| (key, *count as f64));
            for ((metric, label), count) in
                counts.chain(values.seconds.iter().map(|(key, sum)| (key, *sum)))
            {
                let label = label.map(|(key, value)| format!(",{key}=\"{value}\""));
                let label = label.unwrap_or_default();
                let lines = counters.entry(metric).or_default();
                let _ = writeln!(lines, "{metric}{{destination=\"{name}\"{label}}} {count}");
            }
            for (metric, of_it) in &values.durations {
                of_it.render(metric, name, durations.entry(metric).or_default());
            }
        }
        let mut text = String::new();
        for (kind, metrics) in [("counter", counters), ("histogram", durations)] {
            for (metric, lines) in metrics {
                let help = names::help(metric);
                let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}\n{lines}");
            }
        }
        text + &self.backlogs.render(self.series_max)
    }
}

impl Durations {
    fn render(&self, metric: &str, name: &str, text: &mut String) {
        let mut count = 0;
        let bounds = bounds(metric).iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, of_bucket) in bounds.zip(self.counts) {
            count += of_bucket;
            let _ =
                writeln!(text, "{metric}_bucket{{destination=\"{name}\",le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{metric}_sum{{destination=\"{name}\"}} {}", self.sum);
        let _ = writeln!(text, "{metric}_count{{destination=\"{name}\"}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(start)).collect()
    }

    #[test]
    fn beyond_the_limit_destinations_are_counted_together() {
        let registry = Registry::new(2);
        for name in ["a", "b", "c", "d", "a"] {
            registry.of(name).add("reseq_test_total", 2);
        }
        let text = registry.render();
        let expected = [
            "reseq_test_total{destination=\"a\"} 4",
            "reseq_test_total{destination=\"b\"} 2",
            "reseq_test_total{destination=\"*\"} 4",
        ];
        assert_eq!(lines(&text, "reseq_test_total"), expected);
        // An idle destination is replaced.
        assert!(registry.end_idle(1_000_000, Duration::from_secs(1)));
        registry.of("c").add("reseq_test_total", 1);
        let text = registry.render();
        let expected =
            ["reseq_test_total{destination=\"c\"} 1", "reseq_test_total{destination=\"*\"} 4"];
        assert_eq!(lines(&text, "reseq_test_total"), expected);
    }

    #[test]
    fn a_busy_destination_takes_the_place_of_a_quiet_one() {
        let registry = Registry::new(2);
        // The first "rising" searches for space. The calls after it do not, because [`LOOK_EVERY`] has not passed.
        let names = ["quiet", "busy", "rising"].into_iter().chain(["busy"; 9]).chain(["rising"; 8]);
        names.for_each(|name| registry.of(name).add("reseq_test_total", 1));
        registry.replace_least_used(1);
        registry.of("rising").add("reseq_test_total", 1);
        registry.of("quiet").add("reseq_test_total", 1);
        let expected = [
            "reseq_test_total{destination=\"busy\"} 10",
            "reseq_test_total{destination=\"rising\"} 1",
            "reseq_test_total{destination=\"*\"} 10",
        ];
        assert_eq!(lines(&registry.render(), "reseq_test_total"), expected);
    }

    #[test]
    fn series_of_what_nobody_knows_end() {
        let registry = Registry::new(10);
        let first = registry.knows(|name| name == "a");
        let _second = registry.knows(|name| name == "b");
        for name in ["a", "b", "c"] {
            registry.of(name).record("reseq_test_seconds", Duration::from_millis(3));
        }
        registry.forget_gone();
        let expected = [
            "reseq_test_seconds_count{destination=\"a\"} 1",
            "reseq_test_seconds_count{destination=\"b\"} 1",
        ];
        assert_eq!(lines(&registry.render(), "reseq_test_seconds_count"), expected);
        let buckets =
            lines(&registry.render(), "reseq_test_seconds_bucket{destination=\"a\"").join("\n");
        assert!(buckets.contains("le=\"0.0025\"} 0\n") && buckets.contains("le=\"0.005\"} 1\n"));
        assert!(buckets.ends_with("le=\"+Inf\"} 1"), "{buckets}");
        drop(first);
        registry.forget_gone();
        assert_eq!(lines(&registry.render(), "reseq_test_seconds_count").len(), 1);
    }
}
