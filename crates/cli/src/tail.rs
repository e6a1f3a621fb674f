//! `reseq tail`: prints deliveries as they happen.

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{
    client_args::ClientArgs,
    output::{Output, count_of, error_of, human_age, plain, text_of, write_out},
    style,
};
use client::{
    Service, Unreachable,
    paths::{query, text},
};

/// How long one answer lasts, in ms. Then the command sends the next request.
const ANSWER_MS: u64 = 600_000;
/// The longest time without data: the service sends at least an empty line.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// After a failure, the command sends the next request after this pause.
const PAUSE: Duration = Duration::from_millis(500);
const LOST_MAX: Duration = Duration::from_secs(60);

/// The arguments of `reseq tail`.
#[derive(Debug, Clone, Args)]
pub struct TailArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination; all destinations if left out
    destination: Option<String>,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only deliveries with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(["accepted", "refused"]))]
    outcome: Option<String>,
    /// Stop after this many deliveries
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// Prints deliveries until Ctrl-C.
pub async fn run(args: TailArgs) -> anyhow::Result<()> {
    let mut tail = Tail { left: args.count, output: args.client.output };
    let watched = tokio::select! {
        watched = watch(&args, &mut tail) => watched,
        signal = tokio::signal::ctrl_c() => Ok(signal?),
    };
    args.client.print_problem(&watched)?;
    watched
}

/// Sends the next request whenever an answer ends, until enough deliveries were printed.
async fn watch(args: &TailArgs, tail: &mut Tail) -> anyhow::Result<()> {
    let service = args.client.service()?;
    let fields = [
        ("destination", text(args.destination.as_deref())),
        ("key", text(args.key.as_deref())),
        ("outcome", text(args.outcome.as_deref())),
        ("duration_ms", Some(ANSWER_MS.into())),
    ];
    let path = format!("/v1/deliveries{}", query(&fields));
    let (mut has_begun, mut lost) = (false, None);
    while tail.left != Some(0) {
        match read(&service, &path, tail, &mut lost).await {
            Ok(()) => has_begun = true,
            // The service answered before: the same pod or another pod may answer soon.
            Err(error) if (has_begun || lost.is_some()) && error.is::<Unreachable>() => {
                let since = *lost.get_or_insert_with(Instant::now);
                if since.elapsed() > LOST_MAX {
                    return Err(error);
                }
                has_begun = true;
                eprintln!("reseq: {error:#}; trying again, deliveries are missed meanwhile");
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints one answer.
async fn read(
    service: &Service,
    path: &str,
    tail: &mut Tail,
    lost: &mut Option<Instant>,
) -> anyhow::Result<()> {
    let mut answer = service.stream(path, Duration::from_millis(ANSWER_MS) + SILENCE_MAX).await?;
    *lost = None;
    let mut bytes = Vec::new();
    loop {
        let chunk = match timeout(SILENCE_MAX, answer.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                *lost = Some(Instant::now());
                return Err(service.unreachable(error).into());
            }
            // A proxy or the network has dropped the connection.
            Err(_) => return Ok(()),
        };
        bytes.extend_from_slice(&chunk);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            tail.line(&line)?;
            if tail.left == Some(0) {
                return Ok(());
            }
        }
        anyhow::ensure!(bytes.len() <= LINE_BYTES_MAX, "a line of the answer is too long");
    }
}

/// The state of the output.
struct Tail {
    /// How many deliveries to print; `None`: all.
    left: Option<u64>,
    output: Output,
}

impl Tail {
    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let line = line.trim_ascii();
        // An empty line keeps the connection alive.
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return Ok(()) };
        match (value["type"].as_str(), self.output) {
            (Some("delivery"), output) => {
                self.left = self.left.map(|left| left.saturating_sub(1));
                match output {
                    Output::Table => write_out(&shown(&value)),
                    output => write_out(&output.render(&String::from_utf8_lossy(line))?),
                }
            }
            (Some("missed"), Output::Json | Output::Yaml) => {
                write_out(&self.output.render(&String::from_utf8_lossy(line))?)
            }
            (Some("missed"), _) => {
                let what = match count_of(&value, "count") {
                    1 => "1 delivery is".to_owned(),
                    count => format!("{count} deliveries are"),
                };
                write_out(&style::paint(style::DIM, &format!("… {what} not shown: too many")))
            }
            // Print this on standard error: standard output has only deliveries.
            (Some("listening"), _) => {
                eprintln!("reseq: listening");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A delivery as a line for people.
fn shown(delivery: &Value) -> String {
    let outcome = text_of(delivery, "outcome");
    let outcome = style::paint(style::of_state(&outcome), &format!("{outcome:<8}"));
    let time = text_of(delivery, "occurred_at");
    // Show only the time of day.
    let time = time.split_once('T').map_or(time.as_str(), |(_, time)| time).trim_end_matches('Z');
    let key = delivery["key"].as_str().map(|key| format!(" of key {:?}", plain(key)));
    let (took, age) = (count_of(delivery, "took_ms"), count_of(delivery, "age_ms"));
    let mut line = format!(
        "{} {outcome} {} {}{}  took {}, {} old",
        style::paint(style::DIM, &format!("{time:<12}")),
        style::paint(style::BOLD, &text_of(delivery, "destination")),
        text_of(delivery, "sequence"),
        key.unwrap_or_default(),
        human_age(took),
        human_age(age),
    );
    match count_of(delivery, "attempt") {
        0 | 1 => {}
        attempt => line += &format!(", attempt {attempt}"),
    }
    match count_of(delivery, "batch") {
        0 | 1 => {}
        batch => line += &format!(", batch of {batch}"),
    }
    if !delivery["error"].is_null() {
        let error = error_of(&serde_json::json!({"last_error": delivery["error"]}));
        line += &format!(": {}", style::paint(style::BAD, &error));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delivery_is_one_line() {
        let delivery = json!({"type": "delivery", "destination": "erp", "key": "a b", "sequence": 7,
            "outcome": "refused", "attempt": 2, "batch": 3, "took_ms": 12, "age_ms": 1500,
            "occurred_at": "2026-11-21T10:00:00.123Z",
            "error": {"kind": "status", "status": 503, "detail": "no\u{1b}[2J"}});
        let line = anstream::adapter::strip_str(&shown(&delivery)).to_string();
        let expected = "10:00:00.123 refused  erp 7 of key \"a b\"  took 12 ms, 1.5 s old, attempt 2, \
                        batch of 3: status 503: no\\u{1b}[2J";
        assert_eq!(line, expected);
    }

    #[test]
    fn only_deliveries_count() {
        let mut tail = Tail { left: Some(2), output: Output::Json };
        for line in ["\n", "{\"type\":\"listening\"}\n", "{\"type\":\"delivery\"}\n"] {
            tail.line(line.as_bytes()).unwrap();
        }
        assert_eq!(tail.left, Some(1));
    }
}
