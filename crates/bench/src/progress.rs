//! Shows the progress on a terminal.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio_util::task::AbortOnDropHandle;

use super::{load::Load, receive::Tally};

/// The time between two updates: long, because drawing uses the measured cores.
const EVERY: Duration = Duration::from_millis(250);

/// A progress line on standard error, only on a terminal.
pub struct Progress {
    line: ProgressBar,
    task: Option<AbortOnDropHandle<()>>,
}

impl Progress {
    /// Starts to show the progress.
    pub fn new() -> Progress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        let line = ProgressBar::with_draw_target(None, target);
        // The template is constant and valid.
        line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Progress { line, task: None }
    }

    /// Shows the current step, without counts.
    pub fn note(&mut self, text: &str) {
        self.task = None;
        self.line.set_message(text.to_owned());
        self.line.tick();
    }

    /// Shows the current step, and its progress.
    pub fn follow(&mut self, what: &str, load: &Arc<Load>, tally: &Arc<Tally>) {
        self.note(what);
        if self.line.is_hidden() {
            return;
        }
        let (line, load, tally) = (self.line.clone(), load.clone(), tally.clone());
        let (what, before) = (what.to_owned(), load.accepted());
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            loop {
                ticks.tick().await;
                let (accepted, delivered) = (load.accepted() - before, tally.delivered());
                line.set_message(format!("{what}: accepted {accepted}, delivered {delivered}"));
                line.tick();
            }
        });
        self.task = Some(AbortOnDropHandle::new(task));
    }

    /// Removes the line.
    pub fn finish(mut self) {
        self.task = None;
        self.line.finish_and_clear();
    }
}
