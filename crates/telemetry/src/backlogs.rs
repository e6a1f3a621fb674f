//! The backlogs of destinations as gauges: one series for each of the largest backlogs, and one series for the sum of
//! the others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    by_destination::REST,
    render::{label, render},
};

/// The most destinations to name for each cause that needs attention.
const WORST_MAX: usize = 20;

/// The pending messages of a destination by state, its dead letters, and their limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Messages that still occupy a position: neither delivered nor removed.
    pub pending: u64,
    /// The bytes of the bodies of pending messages, as they arrived.
    pub pending_bytes: u64,
    /// Messages that wait for processing.
    pub waiting: u64,
    /// Messages that a processor or worker holds.
    pub leased: u64,
    /// Messages that are processed, or need no processing. Includes messages in delivery.
    pub ready: u64,
    /// Messages that wait for their delay or backoff.
    pub delayed: u64,
    /// Messages whose attempts are used up.
    pub halted: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// The most dead letters that the destination keeps.
    pub dead_letters_max: u64,
}

type Gauge = (&'static str, fn(&Backlog) -> u64);

const GAUGES: [Gauge; 9] = [
    ("reseq_pending", |of| of.pending),
    ("reseq_pending_bytes", |of| of.pending_bytes),
    ("reseq_waiting", |of| of.waiting),
    ("reseq_leased", |of| of.leased),
    ("reseq_ready", |of| of.ready),
    ("reseq_delayed", |of| of.delayed),
    ("reseq_halted", |of| of.halted),
    ("reseq_dead_letters", |of| of.dead_letters),
    ("reseq_dead_letters_max", |of| of.dead_letters_max),
];

impl Backlog {
    fn add(&mut self, other: &Backlog) {
        self.pending += other.pending;
        self.pending_bytes += other.pending_bytes;
        self.waiting += other.waiting;
        self.leased += other.leased;
        self.ready += other.ready;
        self.delayed += other.delayed;
        self.halted += other.halted;
        self.dead_letters += other.dead_letters;
        self.dead_letters_max += other.dead_letters_max;
    }

    /// Sort key for [`Backlogs::render`]: destinations with halted messages count as largest.
    fn size(&self) -> (bool, u64) {
        (self.halted > 0, self.pending.max(self.dead_letters))
    }
}

/// Backlogs and head ages of the destinations whose partitions this process owns.
#[derive(Default)]
pub(super) struct Backlogs {
    backlogs: Mutex<HashMap<Arc<str>, Backlog>>,
    head_ages: Mutex<HashMap<Arc<str>, Duration>>,
    /// For each cause: the destinations that need attention, and the number of their messages.
    attention: Mutex<BTreeMap<&'static str, Vec<(String, u64)>>>,
}

impl Backlogs {
    pub(super) fn set(&self, destination: &str, backlog: Option<Backlog>) {
        match backlog {
            Some(backlog) => drop(self.backlogs.lock().insert(destination.into(), backlog)),
            None => drop(self.backlogs.lock().remove(destination)),
        }
    }

    pub(super) fn set_head_age(&self, destination: &str, age: Option<Duration>) {
        match age {
            Some(age) => drop(self.head_ages.lock().insert(destination.into(), age)),
            None => drop(self.head_ages.lock().remove(destination)),
        }
    }

    pub(super) fn set_attention(&self, cause: &'static str, mut all: Vec<(&str, u64)>) {
        all.sort_unstable_by_key(|(name, count)| (Reverse(*count), *name));
        let rest = all.get(WORST_MAX..).map(|rest| rest.iter().map(|(_, count)| count).sum());
        all.truncate(WORST_MAX);
        all.extend(rest.filter(|rest| *rest > 0).map(|rest| (REST, rest)));
        let worst = all.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        self.attention.lock().insert(cause, worst);
    }

    /// Renders the gauges of at most `series_max` destinations by name, and the sum of the others.
    pub(super) fn render(&self, series_max: usize) -> String {
        let backlogs = self.backlogs.lock();
        let mut all: Vec<(Arc<str>, Backlog)> =
            backlogs.iter().map(|(name, backlog)| (name.clone(), *backlog)).collect();
        drop(backlogs);
        if all.len() > series_max {
            all.sort_by_key(|(_, backlog)| Reverse(backlog.size()));
            let mut rest = Backlog::default();
            all.drain(series_max..).for_each(|(_, one)| rest.add(&one));
            all.push((REST.into(), rest));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = String::new();
        for (metric, value) in GAUGES.iter().filter(|_| !all.is_empty()) {
            let values = all.iter().map(|(name, backlog)| (&**name, value(backlog) as f64));
            render_gauge(&mut text, metric, values);
        }
        text + &self.render_head_ages(series_max) + &self.render_attention()
    }

    fn render_attention(&self) -> String {
        let (mut text, all) = (String::new(), self.attention.lock());
        let series = |cause, (name, count): &(String, u64)| {
            let labels = [label("destination", name), label("cause", cause)].join(",");
            (labels, *count as f64)
        };
        let all: Vec<(String, f64)> = all
            .iter()
            .flat_map(|(cause, worst)| worst.iter().map(|one| series(cause, one)))
            .collect();
        if !all.is_empty() {
            render(&mut text, "reseq_needs_attention_messages", all);
        }
        text
    }

    fn render_head_ages(&self, series_max: usize) -> String {
        let ages = self.head_ages.lock();
        let mut all: Vec<(Arc<str>, Duration)> =
            ages.iter().map(|(name, age)| (name.clone(), *age)).collect();
        drop(ages);
        if all.len() > series_max {
            all.sort_by_key(|(_, age)| Reverse(*age));
            let oldest = all.drain(series_max..).map(|(_, age)| age).max();
            all.push((REST.into(), oldest.unwrap_or_default()));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let mut text = String::new();
        if !all.is_empty() {
            let values = all.iter().map(|(name, age)| (&**name, age.as_secs_f64()));
            render_gauge(&mut text, "reseq_head_age_seconds", values);
        }
        text
    }
}

fn render_gauge<'a>(text: &mut String, metric: &str, values: impl Iterator<Item = (&'a str, f64)>) {
    let series = values.map(|(name, value)| (label("destination", name), value));
    render(text, metric, series);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(start)).collect()
    }

    #[test]
    fn the_largest_backlogs_are_shown_and_the_others_summed() {
        let backlogs = Backlogs::default();
        for (name, pending) in [("a", 5), ("b", 1), ("c", 9), ("d", 2)] {
            let backlog = Backlog { pending, waiting: 1, dead_letters: 1, ..Backlog::default() };
            backlogs.set(name, Some(backlog));
        }
        let expected = [
            "reseq_pending{destination=\"*\"} 3",
            "reseq_pending{destination=\"a\"} 5",
            "reseq_pending{destination=\"c\"} 9",
        ];
        let text = backlogs.render(2);
        assert_eq!(lines(&text, "reseq_pending{"), expected);
        assert_eq!(lines(&text, "reseq_waiting{")[0], "reseq_waiting{destination=\"*\"} 2");
        assert_eq!(lines(&text, "# HELP reseq_waiting").len(), 1);
        ["a", "b", "c", "d"].iter().for_each(|name| backlogs.set(name, None));
        assert_eq!(backlogs.render(2), "");
    }

    #[test]
    fn the_oldest_heads_are_shown_and_of_the_others_the_oldest() {
        let backlogs = Backlogs::default();
        for (name, seconds) in [("a", 5), ("b", 1), ("c", 9), ("d", 2)] {
            backlogs.set_head_age(name, Some(Duration::from_secs(seconds)));
        }
        let expected = [
            "reseq_head_age_seconds{destination=\"*\"} 2",
            "reseq_head_age_seconds{destination=\"a\"} 5",
            "reseq_head_age_seconds{destination=\"c\"} 9",
        ];
        assert_eq!(lines(&backlogs.render(2), "reseq_head_age_seconds{"), expected);
        ["a", "b", "c", "d"].iter().for_each(|name| backlogs.set_head_age(name, None));
        assert_eq!(backlogs.render(2), "");
    }

    #[test]
    fn worst_destinations_are_named_the_others_summed() {
        let backlogs = Backlogs::default();
        let names: Vec<String> = (0..WORST_MAX + 2).map(|number| format!("d{number:02}")).collect();
        let all = names.iter().zip(1..).map(|(name, count)| (name.as_str(), count)).collect();
        backlogs.set_attention("failing", all);
        let text = backlogs.render(9);
        let of = |name: &str, count: u64| {
            let metric = "reseq_needs_attention_messages";
            format!("{metric}{{destination=\"{name}\",cause=\"failing\"}} {count}")
        };
        let shown = lines(&text, "reseq_needs_attention_messages{");
        assert_eq!((shown.len(), shown[0]), (WORST_MAX + 1, of("d21", 22).as_str()));
        assert_eq!(shown[WORST_MAX], of("*", 1 + 2));
        backlogs.set_attention("failing", Vec::new());
        assert_eq!(backlogs.render(9), "");
    }
}
