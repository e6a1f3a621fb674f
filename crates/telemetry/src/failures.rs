//! What the log says about attempts that fail: that they began to, how many each minute, and that they succeed again.
//! Not one line for each attempt: a receiver that is away may refuse hundreds a second.

use std::{
    collections::HashMap,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The time that a line about failing attempts covers.
const WINDOW: Duration = Duration::from_secs(60);
/// A destination without failed attempts for this long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// The most destinations that are remembered. Of others, the log says nothing.
const DESTINATIONS_MAX: usize = 10_000;

/// Deliveries to receivers.
pub static RECEIVERS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the receiver"));
/// Runs of built-in transforms.
pub static TRANSFORMS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the transform"));
/// Messages that workers process.
pub static WORKERS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the work of workers"));

/// Attempts of one kind, by destination.
pub struct Failures {
    /// The end that receives the attempts: `the receiver`.
    what: &'static str,
    destinations: Mutex<HashMap<String, Trouble>>,
    /// True if no destination is remembered: then successes skip the lock.
    is_quiet: AtomicBool,
}

/// A failed attempt. Its texts must be safe to show.
pub struct Failed<'f> {
    /// The destination.
    pub destination: &'f str,
    /// The message.
    pub sequence: u64,
    /// Its id.
    pub id: Option<&'f str>,
    /// Its trace.
    pub trace: Option<&'f str>,
    /// The number of the attempt.
    pub attempt: u32,
    /// What went wrong.
    pub reason: &'f str,
    /// How long until the next attempt; `None` if there is none.
    pub wait: Option<Duration>,
}

/// What is known of a destination with failed attempts.
#[derive(Debug)]
struct Trouble {
    /// The first failed attempt after the last success.
    since: Instant,
    /// True until an attempt succeeds.
    is_failing: bool,
    last: Instant,
    /// Attempts since `since`.
    all: u64,
    /// The window, and its failed and successful attempts.
    begun: Instant,
    failed: u64,
    succeeded: u64,
}

/// What the log has to say.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Began,
    /// The numbers of attempts that failed and succeeded in the window.
    Minute {
        failed: u64,
        succeeded: u64,
        failing_for: Option<Duration>,
    },
    Again {
        after: Duration,
        attempts: u64,
    },
}

impl Failures {
    fn of(what: &'static str) -> Failures {
        Failures { what, destinations: Mutex::default(), is_quiet: AtomicBool::new(true) }
    }

    /// An attempt failed.
    pub fn failed(&self, failed: &Failed<'_>) {
        let (what, news) = (self.what, self.note_failed(failed.destination, Instant::now()));
        let Failed { destination, sequence, id, trace, attempt, reason, wait } = *failed;
        let wait_ms = wait.map(|wait| wait.as_millis() as u64);
        match news {
            Some(News::Began) => tracing::warn!(
                destination,
                sequence,
                id,
                trace,
                attempt,
                reason,
                wait_ms,
                "{what} began to fail",
            ),
            Some(News::Minute { failed, succeeded, failing_for: Some(time) }) => tracing::warn!(
                destination,
                failed,
                succeeded,
                failing_for_s = time.as_secs(),
                reason,
                "{what} still fails: {failed} attempts in the last minute",
            ),
            Some(News::Minute { failed, succeeded, .. }) => tracing::warn!(
                destination,
                failed,
                succeeded,
                reason,
                "{what} fails now and then: {failed} of {} attempts in the last minute",
                failed + succeeded,
            ),
            _ => {}
        }
        tracing::debug!(
            destination,
            sequence,
            id,
            trace,
            attempt,
            reason,
            wait_ms,
            "{what} failed"
        );
    }

    /// This many attempts succeeded.
    pub fn succeeded(&self, destination: &str, count: u64) {
        if self.is_quiet.load(Ordering::Relaxed) {
            return;
        }
        let what = self.what;
        if let Some(News::Again { after, attempts }) =
            self.note_succeeded(destination, count, Instant::now())
        {
            let after_s = after.as_secs();
            let after = match after_s {
                0..60 => format!("{after_s} s"),
                _ => format!("{} min", after_s / 60),
            };
            tracing::info!(destination, after_s, attempts, "{what} works again after {after}");
        }
    }

    fn note_failed(&self, destination: &str, now: Instant) -> Option<News> {
        let mut all = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trouble) = all.get_mut(destination) else {
            all.retain(|_, trouble| now - trouble.last < FORGOTTEN_AFTER);
            if all.len() >= DESTINATIONS_MAX {
                return None;
            }
            let trouble = Trouble {
                since: now,
                is_failing: true,
                last: now,
                all: 1,
                begun: now,
                failed: 1,
                succeeded: 0,
            };
            all.insert(destination.to_owned(), trouble);
            self.is_quiet.store(false, Ordering::Relaxed);
            return Some(News::Began);
        };
        trouble.last = now;
        trouble.all += 1;
        trouble.failed += 1;
        if now - trouble.begun < WINDOW {
            return None;
        }
        if !trouble.is_failing && trouble.succeeded == 0 {
            (trouble.is_failing, trouble.since, trouble.all) =
                (true, trouble.begun, trouble.failed);
        }
        let failing_for = trouble.is_failing.then(|| now - trouble.since);
        let news =
            News::Minute { failed: trouble.failed, succeeded: trouble.succeeded, failing_for };
        (trouble.begun, trouble.failed, trouble.succeeded) = (now, 0, 0);
        Some(news)
    }

    fn note_succeeded(&self, destination: &str, count: u64, now: Instant) -> Option<News> {
        let mut all = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = all.get_mut(destination)?;
        trouble.succeeded += count;
        if trouble.is_failing {
            trouble.is_failing = false;
            return Some(News::Again { after: now - trouble.since, attempts: trouble.all });
        }
        if now - trouble.last >= WINDOW {
            all.remove(destination);
            self.is_quiet.store(all.is_empty(), Ordering::Relaxed);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_outage_is_one_line_each_minute_and_its_end_one() {
        let (failures, start) = (Failures::of("the receiver"), Instant::now());
        let mut news = Vec::new();
        for tenth in 0..1_300 {
            news.extend(failures.note_failed("erp", start + SECOND * tenth / 10));
        }
        let minute = |failing| News::Minute {
            failed: 600,
            succeeded: 0,
            failing_for: Some(SECOND * failing),
        };
        // The first attempt of the first minute counts, too.
        let first = News::Minute { failed: 601, succeeded: 0, failing_for: Some(SECOND * 60) };
        assert_eq!(news, [News::Began, first, minute(120)]);
        let again = failures.note_succeeded("erp", 3, start + SECOND * 150);
        assert_eq!(again, Some(News::Again { after: SECOND * 150, attempts: 1_300 }));
        assert_eq!(failures.note_succeeded("erp", 1, start + SECOND * 151), None);
        assert!(!failures.is_quiet.load(Ordering::Relaxed));
        // A quiet minute ends it: the next failure is news again.
        assert_eq!(failures.note_succeeded("erp", 1, start + SECOND * 190), None);
        assert!(failures.is_quiet.load(Ordering::Relaxed));
        assert_eq!(failures.note_failed("erp", start + SECOND * 191), Some(News::Began));
    }

    #[test]
    fn failures_between_successes_are_counted_by_the_minute() {
        let (failures, start) = (Failures::of("the receiver"), Instant::now());
        let mut news = Vec::new();
        for second in 0..125 {
            news.extend(failures.note_failed("erp", start + SECOND * second));
            news.extend(failures.note_succeeded("erp", 2, start + SECOND * second));
        }
        let again = News::Again { after: Duration::ZERO, attempts: 1 };
        let minute = |failed| News::Minute { failed, succeeded: 120, failing_for: None };
        assert_eq!(news, [News::Began, again, minute(61), minute(60)]);
    }
}
