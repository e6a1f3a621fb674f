//! Logs failing attempts: when they begin to fail, how many fail each minute, and when they succeed again. Does not log
//! a line for each attempt: a receiver that is down may refuse hundreds of attempts a second.

use std::{
    collections::HashMap,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The time that a line about failing attempts covers.
const WINDOW: Duration = Duration::from_secs(60);
/// A destination without failed attempts for this long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// The most destinations to remember. The log says nothing about failing attempts of other destinations.
const DESTINATIONS_MAX: usize = 10_000;

/// Attempts to deliver to receivers.
pub static RECEIVERS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the receiver"));
/// Attempts of built-in transforms.
pub static TRANSFORMS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the transform"));
/// Attempts of workers.
pub static WORKERS: LazyLock<Failures> = LazyLock::new(|| Failures::of("the work of workers"));

/// Attempts of one kind, by destination.
pub struct Failures {
    /// The subject of the log lines, such as `the receiver`.
    what: &'static str,
    destinations: Mutex<HashMap<String, Trouble>>,
    /// True if no destination is remembered. A success then needs no lock.
    is_quiet: AtomicBool,
}

/// A failed attempt. Its texts must not contain secrets.
pub struct Failed<'f> {
    /// The destination.
    pub destination: &'f str,
    /// The sequence of the message.
    pub sequence: u64,
    /// The id of the message.
    pub id: Option<&'f str>,
    /// The trace of the message.
    pub trace: Option<&'f str>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The reason of the failure.
    pub reason: &'f str,
    /// How long until the next attempt; `None` if there is none.
    pub wait: Option<Duration>,
}

/// The failures of a destination.
#[derive(Debug)]
struct Trouble {
    /// The time of the first failed attempt after the last success.
    since: Instant,
    /// True until an attempt succeeds.
    is_failing: bool,
    last: Instant,
    /// The reason of the last failed attempt.
    reason: String,
    /// Attempts since `since`.
    all: u64,
    /// The start of the window, and the attempts that failed and succeeded in it.
    begun: Instant,
    failed: u64,
    succeeded: u64,
}

/// An event to log.
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

impl Trouble {
    fn end_window(&mut self, now: Instant) -> News {
        if !self.is_failing && self.succeeded == 0 {
            (self.is_failing, self.since, self.all) = (true, self.begun, self.failed);
        }
        let failing_for = self.is_failing.then(|| now - self.since);
        let news = News::Minute { failed: self.failed, succeeded: self.succeeded, failing_for };
        (self.begun, self.failed, self.succeeded) = (now, 0, 0);
        news
    }
}

impl Failures {
    fn of(what: &'static str) -> Failures {
        Failures { what, destinations: Mutex::default(), is_quiet: AtomicBool::new(true) }
    }

    /// Notes a failed attempt.
    pub fn failed(&self, failed: &Failed<'_>) {
        let what = self.what;
        let news = self.note_failed(failed.destination, failed.reason, Instant::now());
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
            Some(news) => self.say_minute(destination, reason, &news),
            None => {}
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

    /// Logs the attempts of a window that is over.
    fn say_minute(&self, destination: &str, reason: &str, news: &News) {
        let News::Minute { failed, succeeded, failing_for } = *news else { return };
        let (what, all) = (self.what, failed + succeeded);
        match failing_for {
            Some(time) => tracing::warn!(
                destination,
                failed,
                succeeded,
                failing_for_s = time.as_secs(),
                reason,
                "{what} still fails: {failed} attempts in the last minute",
            ),
            None => tracing::warn!(
                destination,
                failed,
                succeeded,
                reason,
                "{what} fails now and then: {failed} of {all} attempts in the last minute",
            ),
        }
    }

    /// Ends the windows whose minute is over, even if no attempt has ended since.
    pub(super) fn sum_up(&self) {
        for (destination, reason, news) in self.note_time(Instant::now()) {
            self.say_minute(&destination, &reason, &news);
        }
    }

    /// Notes that this many attempts succeeded.
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

    fn note_time(&self, now: Instant) -> Vec<(String, String, News)> {
        let mut all = self.destinations.lock();
        let mut over = Vec::new();
        for (destination, trouble) in all.iter_mut() {
            // After the line about the first failed attempt, do not log it again if it was the only one.
            if trouble.failed > 0 && trouble.all > 1 && now - trouble.begun >= WINDOW {
                let news = trouble.end_window(now);
                over.push((destination.clone(), trouble.reason.clone(), news));
            }
        }
        all.retain(|_, trouble| trouble.is_failing || now - trouble.last < WINDOW);
        self.is_quiet.store(all.is_empty(), Ordering::Relaxed);
        over
    }

    fn note_failed(&self, destination: &str, reason: &str, now: Instant) -> Option<News> {
        let mut all = self.destinations.lock();
        let Some(trouble) = all.get_mut(destination) else {
            all.retain(|_, trouble| now - trouble.last < FORGOTTEN_AFTER);
            if all.len() >= DESTINATIONS_MAX {
                return None;
            }
            let trouble = Trouble {
                since: now,
                is_failing: true,
                last: now,
                reason: reason.to_owned(),
                all: 1,
                begun: now,
                failed: 1,
                succeeded: 0,
            };
            all.insert(destination.to_owned(), trouble);
            self.is_quiet.store(false, Ordering::Relaxed);
            return Some(News::Began);
        };
        if trouble.reason != reason {
            reason.clone_into(&mut trouble.reason);
        }
        trouble.last = now;
        trouble.all += 1;
        trouble.failed += 1;
        (now - trouble.begun >= WINDOW).then(|| trouble.end_window(now))
    }

    fn note_succeeded(&self, destination: &str, count: u64, now: Instant) -> Option<News> {
        let mut all = self.destinations.lock();
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
            news.extend(failures.note_failed("erp", "no", start + SECOND * tenth / 10));
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
        assert_eq!(failures.note_failed("erp", "no", start + SECOND * 191), Some(News::Began));
    }

    #[test]
    fn window_ends_also_when_no_attempt_follows() {
        let (failures, start) = (Failures::of("the receiver"), Instant::now());
        for second in 0..3 {
            failures.note_failed("erp", "status 503", start + SECOND * second);
            failures.note_failed("crm", "no", start + SECOND * second);
        }
        failures.note_failed("once", "no", start);
        failures.note_succeeded("crm", 1, start + SECOND * 3);
        assert_eq!(failures.note_time(start + SECOND * 59), []);
        let told = failures.note_time(start + SECOND * 65);
        let of_erp = told.iter().find(|(destination, ..)| destination == "erp").unwrap();
        let news = News::Minute { failed: 3, succeeded: 0, failing_for: Some(SECOND * 65) };
        assert_eq!((&*of_erp.1, &of_erp.2), ("status 503", &news));
        assert!(told.len() == 2 && told.iter().all(|(destination, ..)| destination != "once"));
        // The one that works is forgotten; of the others, silence is no news.
        assert_eq!(failures.note_time(start + SECOND * 200), []);
        let after = start + SECOND * 201;
        assert_eq!(failures.note_failed("crm", "no", after), Some(News::Began));
        assert!(matches!(failures.note_succeeded("erp", 1, after), Some(News::Again { .. })));
    }

    #[test]
    fn failures_between_successes_are_counted_by_the_minute() {
        let (failures, start) = (Failures::of("the receiver"), Instant::now());
        let mut news = Vec::new();
        for second in 0..125 {
            news.extend(failures.note_failed("erp", "no", start + SECOND * second));
            news.extend(failures.note_succeeded("erp", 2, start + SECOND * second));
        }
        let again = News::Again { after: Duration::ZERO, attempts: 1 };
        let minute = |failed| News::Minute { failed, succeeded: 120, failing_for: None };
        assert_eq!(news, [News::Began, again, minute(61), minute(60)]);
    }
}
