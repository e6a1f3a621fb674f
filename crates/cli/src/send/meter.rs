//! The progress bar, on standard error, only on a terminal.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Failure, source::Item};

/// The progress of sending.
pub struct Meter {
    bar: ProgressBar,
    messages: u64,
    since: Instant,
}

impl Meter {
    /// A progress bar. Without a total, it shows only counts.
    pub fn new(bytes_total: Option<u64>) -> Meter {
        let bar = match bytes_total {
            _ if !std::io::stderr().is_terminal() => ProgressBar::hidden(),
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        let template = match bytes_total {
            Some(_) => "{bar:40} {bytes}/{total_bytes} {wide_msg}",
            None => "{spinner} {bytes} {wide_msg}",
        };
        // The templates are constants; an invalid one would fall back to the default style.
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Meter { bar, messages: 0, since: Instant::now() }
    }

    /// Notes that the service accepted these messages.
    pub fn accepted(&mut self, items: &[Item]) {
        self.messages += items.len() as u64;
        self.bar.inc(items.iter().map(|item| item.bytes as u64).sum());
        let per_second = self.messages as f64 / self.since.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{} messages, {per_second:.0}/s", self.messages));
    }

    /// Shows that sending pauses: why, and for how long.
    pub(super) fn waiting(&self, failure: &Failure, wait: Duration) {
        let (messages, wait_s) = (self.messages, wait.as_secs_f64());
        self.bar.set_message(format!("{messages} messages; again in {wait_s:.1} s: {failure}"));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
