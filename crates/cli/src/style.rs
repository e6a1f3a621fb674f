//! Colours for terminals. [`write_out`](super::output::write_out) removes them where standard output is
//! no terminal, and where NO_COLOR is set.

use anstyle::{AnsiColor, Style};

/// Needs an operator now.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// May need an operator soon.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// In order.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// A command that helps.
pub const ACTION: Style = AnsiColor::Cyan.on_default();
/// Less important.
pub const DIM: Style = Style::new().dimmed();
/// A name.
pub const BOLD: Style = Style::new().bold();

/// The text in this style.
pub fn paint(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{style}{text}{style:#}")
}

/// The style of a state of a message, of an outcome, or of what blocks a lane.
pub fn of_state(state: &str) -> Style {
    match state {
        "halted" | "damaged" | "operator" | "refused" => BAD,
        "delayed" | "backoff" | "paused" | "dead_lettered" => WARNING,
        "ready" | "delivering" | "delivered" | "accepted" => GOOD,
        "processing" => ACTION,
        _ => Style::new(),
    }
}
