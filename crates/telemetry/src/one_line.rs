//! Formats the lines of the log. Each line names its process. Texts from outside cannot forge a line.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Json, Writer},
    },
    registry::LookupSpan,
};

use super::{log::Process, log_limit::Limit};
use domain::excerpt::is_unsafe;

type Usual<F> = tracing_subscriber::fmt::format::Format<F>;

/// The usual formats of events.
pub(super) enum Format {
    /// For people.
    Text { format: Usual<tracing_subscriber::fmt::format::Full>, has_colours: bool },
    /// One JSON object.
    Json(Usual<Json>),
}

/// Writes each event on a single line, with the facts about the process.
pub(super) struct OneLine {
    format: Format,
    /// The end of each line.
    process: String,
    limit: Limit,
}

impl OneLine {
    pub(super) fn new(format: Format, process: &Process, limit: Limit) -> OneLine {
        let Process { pod, roles } = process;
        let version = env!("CARGO_PKG_VERSION");
        // None of the three texts contains a character that JSON would escape.
        let process = match format {
            Format::Text { .. } => format!(" pod={pod} roles={roles} version={version}"),
            Format::Json(_) => {
                format!(",\"pod\":\"{pod}\",\"roles\":\"{roles}\",\"version\":\"{version}\"}}")
            }
        };
        OneLine { format, process, limit }
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
        if !self.limit.allows(event) {
            return Ok(());
        }
        let mut line = String::new();
        let to = Writer::new(&mut line);
        match &self.format {
            Format::Text { format, has_colours } => {
                format.format_event(context, to, event)?;
                line = escaped(line.trim_end_matches('\n'), *has_colours);
            }
            Format::Json(format) => {
                format.format_event(context, to, event)?;
                let object = line.trim_end_matches('\n');
                line.truncate(object.strip_suffix('}').unwrap_or(object).len());
            }
        }
        writeln!(writer, "{line}{}", self.process)
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

/// Escapes the characters of a line that could end it or deceive its reader. On a terminal, keeps colours, but no other
/// escape sequences.
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
            let format = tracing_subscriber::fmt::format().with_ansi(has_colours);
            let format = Format::Text { format, has_colours };
            let process = Process { pod: "ab12".into(), roles: "sender".into() };
            let log = tracing_subscriber::fmt()
                .with_ansi(has_colours)
                .event_format(OneLine::new(format, &process, Limit::default()))
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

    /// The lines that these events write as JSON.
    fn written(limit: &Limit, events: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let format = Format::Json(tracing_subscriber::fmt::format().json().flatten_event(true));
        let process = Process { pod: "ab12".into(), roles: "ingest,sender".into() };
        let log = tracing_subscriber::fmt()
            .json()
            .event_format(OneLine::new(format, &process, limit.clone()))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(log, events);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_line_of_json_bears_its_process() {
        let lines = written(&Limit::default(), || tracing::warn!(text = "}}", "ends with }}"));
        let version = env!("CARGO_PKG_VERSION");
        let process = format!(r#""pod":"ab12","roles":"ingest,sender","version":"{version}"}}"#);
        assert!(lines[0].starts_with('{') && lines[0].ends_with(&process), "{lines:?}");
        assert!(lines[0].contains(r#""text":"}}""#), "{lines:?}");
    }

    #[test]
    fn warnings_of_all_kinds_are_limited_and_errors_are_not() {
        macro_rules! warn_thrice {
            ($($kind:literal)*) => {$(for _ in 0..3 { tracing::warn!($kind) })*};
        }
        let lines = written(&Limit::default(), || {
            warn_thrice!("a" "b" "c" "d" "e" "f" "g" "h" "i");
            tracing::error!("an error");
        });
        assert_eq!(lines.len(), 21, "{lines:?}");
        assert!(lines[20].contains("an error"), "{lines:?}");
    }

    #[test]
    fn lines_of_one_kind_are_limited_and_the_others_counted() {
        let limit = Limit::default();
        let lines = written(&limit, || {
            for number in 0..100 {
                tracing::warn!(destination = %format!("d{}", number % 7), "it failed");
            }
            tracing::warn!("another kind");
            limit.sum_up(false);
            limit.end_windows();
            limit.sum_up(false);
        });
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[..3].iter().all(|line| line.contains(r#""message":"it failed""#)));
        assert!(lines[3].contains("another kind"), "{lines:?}");
        assert!(lines[4].contains("and 97 more lines in a minute: it failed"), "{lines:?}");
        assert!(lines[4].contains(r#""destinations":"d0 d3 d4 d5 d6""#), "{lines:?}");
    }

    #[test]
    fn at_the_end_of_the_process_lines_left_out_are_counted_at_once() {
        let limit = Limit::default();
        let lines = written(&limit, || {
            (0..9).for_each(|_| tracing::info!("it runs, or not"));
            (0..9).for_each(|_| tracing::error!(target: "reseq_connect::skipped", "skipped"));
            limit.sum_up(true);
        });
        assert_eq!(lines.len(), 6 + 9 + 1, "{lines:?}");
        assert!(lines[15].contains("and 3 more lines in a minute: it runs, or not"), "{lines:?}");
    }

    #[test]
    fn after_a_minute_lines_of_a_kind_are_written_again() {
        let limit = Limit::default();
        for _ in 0..3 {
            let said = || (0..100).for_each(|_| tracing::info!("it runs, or not"));
            let lines = written(&limit, said);
            assert_eq!(lines.len(), 6, "{lines:?}");
            limit.end_windows();
        }
    }
}
