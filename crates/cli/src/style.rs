//! Colours for terminals. [`write_out`](super::output::write_out) removes them if standard output is not a terminal, or
//! if NO_COLOR is set.

use anstyle::{AnsiColor, Style};

/// For states that need an operator now.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// For states that may need an operator soon.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// For states that are in order.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For commands that help.
pub const ACTION: Style = AnsiColor::Cyan.on_default();
/// For less important text.
pub const DIM: Style = Style::new().dimmed();
/// For names.
pub const BOLD: Style = Style::new().bold();

/// The text in this style.
pub fn paint(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{style}{text}{style:#}")
}

/// The style for the state of a message, for an outcome, or for the cause that blocks a lane.
pub fn of_state(state: &str) -> Style {
    match state {
        "halted" | "damaged" | "operator" | "refused" => BAD,
        "delayed" | "backoff" | "paused" | "dead_lettered" => WARNING,
        "ready" | "delivering" | "delivered" | "accepted" => GOOD,
        "processing" => ACTION,
        _ => Style::new(),
    }
}
