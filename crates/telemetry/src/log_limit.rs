//! Limits the log: in each minute, writes the first lines of each kind, and counts the others.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata,
    callsite::Identifier,
    field::{Field, Visit},
};

/// The time after which a kind of line is counted from zero.
const WINDOW: Duration = Duration::from_secs(60);
/// The most lines of one kind of error in this time. Errors are rare, and each may say something else.
const ERRORS_MAX: usize = 10;
const WARNINGS_MAX: usize = 3;
const OTHERS_MAX: usize = 6;
/// The most warnings of all kinds together in this time.
const WARNINGS_OF_ALL_MAX: usize = 20;
/// The most destinations that a summary names.
const NAMED_MAX: usize = 5;
/// The log writes all actions of operators, because it is a copy of the audit log; and all messages that reseq-connect
/// skips, because nothing else has their positions.
const ALL_OF: [&str; 2] = ["reseq_api::audit", "reseq_connect::skipped"];

/// Counts lines. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Limit(Arc<Mutex<Windows>>);

#[derive(Default)]
struct Windows {
    of_each: HashMap<Identifier, Window>,
    /// When the window of all warnings began, and the number of warnings in it.
    warnings: Option<(Instant, usize)>,
}

/// Counts a warning. True if the limit of all warnings allows it.
fn has_room(warnings: &mut Option<(Instant, usize)>) -> bool {
    let current = warnings.filter(|(begun, _)| begun.elapsed() < WINDOW);
    let (begun, count) = current.unwrap_or_else(|| (Instant::now(), 0));
    *warnings = Some((begun, count + 1));
    count < WARNINGS_OF_ALL_MAX
}

/// The lines of one kind in the current window.
struct Window {
    begun: Instant,
    shown: usize,
    left_out: LeftOut,
}

/// The lines that were not written.
#[derive(Default)]
struct LeftOut {
    count: u64,
    is_bad: bool,
    message: String,
    destinations: BTreeSet<String>,
}

impl Limit {
    /// True if this line must be written. Otherwise counts it.
    pub(super) fn allows(&self, event: &Event<'_>) -> bool {
        let about = event.metadata();
        if *about.level() > Level::INFO || is_exempt(about) {
            return true;
        }
        let is_bad = *about.level() <= Level::WARN;
        let mut windows = self.0.lock();
        let is_warning = *about.level() == Level::WARN;
        let Windows { of_each, warnings } = &mut *windows;
        let window = of_each.entry(about.callsite()).or_insert_with(|| Window {
            begun: Instant::now(),
            shown: 0,
            left_out: LeftOut::default(),
        });
        // Begin a new window here, because `sum_up` may run later or never.
        if window.begun.elapsed() >= WINDOW {
            (window.begun, window.shown) = (Instant::now(), 0);
        }
        let shown_max = match *about.level() {
            Level::ERROR => ERRORS_MAX,
            Level::WARN => WARNINGS_MAX,
            _ => OTHERS_MAX,
        };
        let is_allowed = window.shown < shown_max;
        window.shown += usize::from(is_allowed);
        if is_allowed && (!is_warning || has_room(warnings)) {
            return true;
        }
        window.left_out.is_bad = is_bad;
        window.left_out.count += 1;
        event.record(&mut window.left_out);
        false
    }

    #[cfg(test)]
    pub(super) fn end_windows(&self) {
        let ended = Instant::now().checked_sub(WINDOW).unwrap();
        self.0.lock().of_each.values_mut().for_each(|window| window.begun = ended);
    }

    /// Writes a summary for each kind of line whose window is over; at the end of the process, for each kind.
    pub(super) fn sum_up(&self, is_end: bool) {
        let mut over = Vec::new();
        self.0.lock().of_each.retain(|_, window| {
            let is_over = is_end || window.begun.elapsed() >= WINDOW;
            if is_over && window.left_out.count > 0 {
                over.push(std::mem::take(&mut window.left_out));
            }
            !is_over
        });
        // Write after unlocking the windows: these summaries are lines too.
        over.iter().for_each(LeftOut::write);
    }
}

fn is_exempt(about: &Metadata<'_>) -> bool {
    ALL_OF.iter().any(|all| about.target().starts_with(all)) || about.target() == module_path!()
}

impl LeftOut {
    fn write(&self) {
        let LeftOut { count, is_bad, message, destinations } = self;
        let names = destinations.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let destinations = Some(names).filter(|names| !names.is_empty());
        let destinations = destinations.as_deref();
        match is_bad {
            true => tracing::warn!(
                left_out = count,
                destinations,
                "and {count} more lines in a minute: {message}"
            ),
            false => tracing::info!(
                left_out = count,
                destinations,
                "and {count} more lines in a minute: {message}"
            ),
        }
    }

    fn note(&mut self, field: &Field, text: impl FnOnce() -> String) {
        match field.name() {
            "message" if self.message.is_empty() => self.message = text(),
            "destination" if self.destinations.len() < NAMED_MAX => {
                self.destinations.insert(text());
            }
            _ => {}
        }
    }
}

impl Visit for LeftOut {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, || value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, || format!("{value:?}"));
    }
}
