//! The live display on standard error: bars on a terminal, otherwise one line per second.

use std::{
    io::{IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio_util::task::AbortOnDropHandle;

use super::{
    ledger::{Counts, Ledger},
    plan::Stream,
};

/// How often the bars are updated.
const BARS_EVERY: Duration = Duration::from_millis(100);
/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The display of a running demo.
pub struct Progress {
    bars: Option<Arc<Bars>>,
    _task: AbortOnDropHandle<()>,
}

struct Bars {
    all: MultiProgress,
    sent: ProgressBar,
    transformed: ProgressBar,
    delivered: [ProgressBar; 2],
    now: ProgressBar,
}

impl Progress {
    /// Starts to display the progress.
    pub fn start(ledger: Arc<Ledger>) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let bars = is_terminal.then(|| Arc::new(Bars::new(ledger.messages() as u64)));
        let task = tokio::spawn(show(ledger, bars.clone()));
        Progress { bars, _task: AbortOnDropHandle::new(task) }
    }

    /// Prints an event.
    pub fn note(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.note(text),
            None => say(text),
        }
    }

    /// Ends the display; the notes remain.
    pub fn finish(self) {
        if let Some(bars) = &self.bars {
            // The report that follows shows this in more detail.
            bars.now.finish_and_clear();
            let _ = bars.all.clear();
            bars.all.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

async fn show(ledger: Arc<Ledger>, bars: Option<Arc<Bars>>) {
    let every = if bars.is_some() { BARS_EVERY } else { LINE_EVERY };
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        let counts = ledger.counts();
        match &bars {
            Some(bars) => bars.draw(&counts),
            // Print nothing before the first message.
            None if counts.sent > 0 => say(&line(&counts, ledger.messages())),
            None => {}
        }
    }
}

/// Ignores a closed output: the demo must continue, because it has processes to stop.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn line(counts: &Counts, messages: usize) -> String {
    let [http, tcp] = counts.delivered;
    let [http_name, tcp_name] = Stream::ALL.map(Stream::destination);
    let (held, answered) = (counts.work.held, counts.work.answered);
    format!(
        "sent {}/{}, in the transformer {held}, transformed {answered}, delivered {http_name} \
         {http}/{messages}, {tcp_name} {tcp}/{messages}",
        counts.sent,
        2 * messages,
    )
}

impl Bars {
    fn new(messages: u64) -> Bars {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let style = |template: &str| {
            // The templates are constants; an invalid one would fall back to the default style.
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let bar = |name: &str, count: u64| {
            let bar = all.add(ProgressBar::new(count));
            bar.set_style(style("{prefix:<20} {bar:40} {pos:>5}/{len} {msg}"));
            bar.set_prefix(name.to_owned());
            bar
        };
        let sent = bar("sent", 2 * messages);
        let transformed = bar("transformed", 2 * messages);
        let delivered =
            Stream::ALL.map(|stream| bar(&format!("delivered {}", stream.destination()), messages));
        let now = all.add(ProgressBar::new_spinner());
        now.set_style(style("{spinner} {wide_msg}"));
        now.enable_steady_tick(BARS_EVERY);
        Bars { all, sent, transformed, delivered, now }
    }

    fn draw(&self, counts: &Counts) {
        self.sent.set_position(counts.sent as u64);
        self.transformed.set_position(counts.work.answered as u64);
        self.transformed.set_message(format!("({} in work)", counts.work.held));
        for (bar, count) in self.delivered.iter().zip(counts.delivered) {
            bar.set_position(count as u64);
        }
    }

    fn note(&self, text: &str) {
        // A display error must not end the demo.
        let _ = self.all.println(text);
        self.now.set_message(text.to_owned());
    }
}
