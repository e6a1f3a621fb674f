//! Keeps each event of the log on a single line, so that texts from outside cannot forge a line.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, format,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

use domain::excerpt::is_unsafe;

/// The usual format of events, with unsafe characters escaped.
pub(super) struct OneLine {
    format: Format,
    has_colours: bool,
}

impl OneLine {
    pub(super) fn new(has_colours: bool) -> OneLine {
        OneLine { format: format().with_ansi(has_colours), has_colours }
    }
}

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let line = escaped(line.trim_end_matches('\n'), self.has_colours);
        writeln!(writer, "{line}")
    }
}

/// The escape sequences with which the formatter begins and ends colours.
const COLOURS: [&str; 11] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
    "\u{1b}[36m",
    "\u{1b}[37m",
];

/// Escapes the characters of a line that could end it or deceive its reader. On a terminal,
/// colours stay; other escape sequences do not.
fn escaped(line: &str, has_colours: bool) -> String {
    if !line.contains(is_unsafe) {
        return line.to_owned();
    }
    let mut text = String::with_capacity(line.len() + 16);
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let colour = COLOURS.iter().find(|colour| has_colours && rest.starts_with(**colour));
        let taken = colour.map_or(char.len_utf8(), |colour| colour.len());
        match colour {
            None if is_unsafe(char) => text.extend(char.escape_default()),
            _ => text.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_text_ends_a_line_or_begins_a_colour() {
        let evil = "a\nERROR forged\r\u{1b}[2Jred\u{2028}\u{202e}\u{9b}x\0";
        for has_colours in [false, true] {
            let written = Written::default();
            let writer = written.clone();
            let log = tracing_subscriber::fmt()
                .with_ansi(has_colours)
                .event_format(OneLine::new(has_colours))
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::with_default(log, || {
                tracing::info!(%evil, text = evil, debug = ?evil, "said {evil}");
                tracing::warn!("{evil}");
            });
            let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.ends_with('\n') && !text.contains('\r') && !text.contains('\u{2028}'));
            assert!(!text.contains("\u{1b}[2Jred"), "{text:?}");
            assert_eq!(text.contains('\u{1b}'), has_colours, "{text:?}");
            assert!(text.contains("\\nERROR forged"), "{text}");
        }
    }
}
