//! `reseq verify`: proves that the order held in each lane, from the log of a destination and the journal of its
//! receiver.

use client::{
    Call, Service,
    paths::{path_of, query},
};
mod check;

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Context;
use clap::Args;
use domain::{Ordering, Position};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use super::{
    client_args::ClientArgs,
    exit::Exit,
    output::{Output, count_of, counted, plain, write_out},
    style,
};
use check::{Check, KINDS, Kind, Line, Logged, Report, Violation};

/// The most entries of the log to read.
const LOG_MAX: usize = 1_000_000;
/// The most entries of one page of the log.
const PAGE: usize = 1_000;
/// The most messages of the journal to look up one by one, because they are not in the log.
const LOOKED_UP_MAX: usize = 1_000;
/// The longest line of the journal, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most violations to show to people.
const SHOWN_MAX: usize = 20;

/// The arguments of `reseq verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Journal: a file with a line of JSON for each delivery that the receiver accepted; - is standard
    /// input
    #[arg(long, value_name = "FILE")]
    journal: PathBuf,
    /// Only this sequence and later, for a journal that begins later
    #[arg(long, value_name = "SEQUENCE")]
    from_sequence: Option<u64>,
    /// Only this sequence and earlier, for a journal that ends earlier
    #[arg(long, value_name = "SEQUENCE")]
    to_sequence: Option<u64>,
}

impl VerifyArgs {
    fn takes(&self, sequence: u64) -> bool {
        self.from_sequence.is_none_or(|from| from <= sequence)
            && self.to_sequence.is_none_or(|to| sequence <= to)
    }
}

/// The answers of the service about the destination.
struct History {
    ordering: Ordering,
    last_sequence: u64,
    /// False if the destination keeps no log.
    has_log: bool,
    /// True if the log has all messages that have left.
    is_whole: bool,
    /// The entries of the log, in the order of leaving.
    log: Vec<Logged>,
}

/// Compares the journal with the log, and prints the report.
pub async fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let service = args.client.service()?;
    let checked = compare(&service, &args).await;
    args.client.print_problem(&checked)?;
    let (history, report, is_torn) = checked?;
    let is_complete = history.has_log && history.is_whole && report.forgotten == 0;
    match args.client.output {
        Output::Table => write_out(&shown(&args.destination, &history, &report, is_torn))?,
        output => {
            let mut object = json!(report);
            object["destination"] = json!(args.destination);
            object["ordering"] = json!(history.ordering);
            object["complete"] = json!(is_complete);
            object["ok"] = json!(report.violations.is_empty());
            write_out(&output.render(&object.to_string())?)?;
        }
    }
    Ok(if report.violations.is_empty() { Exit::Ok } else { Exit::Violated })
}

async fn compare(service: &Service, args: &VerifyArgs) -> anyhow::Result<(History, Report, bool)> {
    // Read the log before the journal: each message in that log must be in the journal.
    let history = read_history(service, args).await?;
    let mut check = Check::new(history.ordering);
    let is_torn = read_journal(args, &mut check).await?;
    let others = check.compare(&history.log);
    look_up(service, args, &history, others, &mut check).await?;
    Ok((history, check.report(), is_torn))
}

async fn read_history(service: &Service, args: &VerifyArgs) -> anyhow::Result<History> {
    #[derive(Deserialize)]
    struct Definition {
        ordering: Ordering,
        log_max: u64,
        #[serde(default)]
        shards: u16,
    }
    let path = path_of(&args.destination, "");
    let definition = service.call(Call::get(&path)).await?;
    let Definition { ordering, log_max, shards } = Definition::deserialize(&*definition)
        .with_context(|| format!("{path}: the answer is not what was expected"))?;
    if shards > 1 && !args.destination.contains('~') {
        let (name, last) = (&args.destination, shards - 1);
        anyhow::bail!(
            "{name} has shards, and each has sequences of its own: verify each of {name}~0 to {name}~{last}"
        );
    }
    let stats = service.call(Call::get(&path_of(&args.destination, "stats"))).await?;
    let last_sequence = count_of(&stats, "last_sequence");
    let left = last_sequence.saturating_sub(count_of(&stats, "pending"));
    let mut history =
        History { ordering, last_sequence, has_log: log_max > 0, is_whole: false, log: Vec::new() };
    if !history.has_log {
        return Ok(history);
    }
    let (mut cursor, mut count) = (None, 0);
    loop {
        let fields = [("limit", Some(PAGE.into())), ("cursor", cursor.take())];
        let path = path_of(&args.destination, &format!("log{}", query(&fields)));
        let page = service.call(Call::get(&path)).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            count += 1;
            // Skip an entry that cannot be read.
            let Ok(entry) = Logged::deserialize(item) else { continue };
            if args.takes(entry.position.sequence) {
                history.log.push(entry);
            }
        }
        match &page["next_cursor"] {
            Value::Null => break,
            _ if count >= LOG_MAX => break,
            next => cursor = Some(next.clone()),
        }
    }
    // The service returned the newest entries first.
    history.log.reverse();
    history.is_whole = count as u64 >= left;
    Ok(history)
}

/// Reads the journal. True if its last line is incomplete: the receiver was writing it.
async fn read_journal(args: &VerifyArgs, check: &mut Check) -> anyhow::Result<bool> {
    let path = &args.journal;
    // Deliveries name the first shard like its destination.
    let name = args.destination.strip_suffix("~0").unwrap_or(&args.destination);
    let mut reader: Box<dyn AsyncBufRead + Unpin + Send> = match path.as_os_str() == "-" {
        true => Box::new(BufReader::new(tokio::io::stdin())),
        false => {
            let file = tokio::fs::File::open(path).await;
            let problem = || format!("--journal: {} cannot be read", path.display());
            Box::new(BufReader::new(file.with_context(problem)?))
        }
    };
    let (mut bytes, mut number) = (Vec::new(), 0_u64);
    loop {
        bytes.clear();
        let read = read_line(&mut reader, &mut bytes).await;
        let read = read.with_context(|| format!("--journal: {}", path.display()))?;
        if read == 0 {
            return Ok(false);
        }
        number += 1;
        let is_whole = bytes.ends_with(b"\n");
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(&bytes) {
            Ok(line) => {
                let of = line.destination.as_deref();
                if of.is_none_or(|of| of == name) && args.takes(line.position.sequence) {
                    check.accepted(line, number);
                }
            }
            Err(_) if !is_whole => return Ok(true),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("{}, line {number}: is no line of a journal", path.display())
                });
            }
        }
    }
}

/// Reads up to the next line break, of a limited length.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    bytes: &mut Vec<u8>,
) -> std::io::Result<usize> {
    use tokio::io::AsyncReadExt;
    let read = reader.take(LINE_BYTES_MAX as u64).read_until(b'\n', bytes).await?;
    if read == LINE_BYTES_MAX && !bytes.ends_with(b"\n") {
        return Err(std::io::Error::other(format!("a line has more than {LINE_BYTES_MAX} bytes")));
    }
    Ok(read)
}

/// Looks up the messages of the journal that are not in the log.
async fn look_up(
    service: &Service,
    args: &VerifyArgs,
    history: &History,
    others: Vec<Position>,
    check: &mut Check,
) -> anyhow::Result<()> {
    let not_looked_up = others.len().saturating_sub(LOOKED_UP_MAX);
    check.are_forgotten(not_looked_up as u64);
    for position in others.into_iter().take(LOOKED_UP_MAX) {
        // The sequence may have been stamped after the numbers were read.
        let path = path_of(&args.destination, &format!("messages/{}", position.sequence));
        let found: Option<Value> = service.find(&path).await?;
        let is_it = found.as_ref().is_some_and(|found| count_of(found, "epoch") == position.epoch);
        let may_be_forgotten = !(history.has_log && history.is_whole);
        match found {
            Some(_) if is_it => check.is_pending(),
            None if may_be_forgotten && position.sequence <= history.last_sequence => {
                check.are_forgotten(1);
            }
            _ => check.is_unknown(position),
        }
    }
    Ok(())
}

/// The report for people.
fn shown(destination: &str, history: &History, report: &Report, is_torn: bool) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{value}", style::paint(style::BOLD, &format!("{name:<12}")));
    };
    let lanes = match history.ordering {
        Ordering::Destination => "one lane".to_owned(),
        Ordering::Key => format!("ordered by key, {}", counted(report.lanes, "lane")),
        Ordering::None => "without order".to_owned(),
    };
    line("destination", format!("{destination}, {lanes}"));
    let Report { journal_lines, journal_messages, repeats, .. } = report;
    let (lines, messages) =
        (counted(*journal_lines, "line"), counted(*journal_messages, "message"));
    line("journal", format!("{lines}: {messages}, {} (allowed)", counted(*repeats, "repeat")));
    let how = match (history.has_log, history.is_whole) {
        (false, _) => "none: the destination keeps no log (log_max = 0)".to_owned(),
        (true, is_whole) => {
            let (all, delivered) = (counted(report.log_messages, "message"), report.log_delivered);
            let whole =
                if is_whole { "everything that left" } else { "it has forgotten older ones" };
            format!("{all}, {delivered} delivered; {whole}")
        }
    };
    line("log", how);
    for kind in KINDS {
        let count = report.counts.get(&kind).copied().unwrap_or_default();
        let (name, meaning) = words(kind);
        let style = if count == 0 { style::GOOD } else { style::BAD };
        line(name, format!("{}  {meaning}", style::paint(style, &format!("{count:>6}"))));
    }
    for violation in report.violations.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "{} {}", style::paint(style::BAD, "!"), sentence(violation));
    }
    let all: u64 = report.counts.values().sum();
    if all > SHOWN_MAX as u64 {
        let _ = writeln!(text, "! and {} more", all - SHOWN_MAX as u64);
    }
    notes(history, report, is_torn).iter().for_each(|note| {
        let _ = writeln!(text, "{note}");
    });
    text += &match report.violations.is_empty() {
        true if history.ordering == Ordering::None => {
            style::paint(style::GOOD, "Nothing is missing, as far as the log reaches.")
        }
        true => style::paint(style::GOOD, "The order held in every lane."),
        false => style::paint(style::BAD, "This is not what Reseq promises."),
    };
    text
}

fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Reordered => ("reordered", "accepted after a later message of their lane"),
        Kind::Missing => ("missing", "delivered according to the log, and not in the journal"),
        Kind::Unknown => ("unknown", "in the journal, and never in the destination"),
        Kind::Different => ("different", "with another id or key"),
        Kind::LeftOutOfOrder => ("log order", "left after a later message of their lane"),
    }
}

fn sentence(violation: &Violation) -> String {
    let Violation { kind, position, key, after, line } = violation;
    let key = key.as_ref().map(|key| format!(" of key {:?}", plain(key))).unwrap_or_default();
    let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let Position { epoch, sequence } = position;
    let what = match (kind, after) {
        (Kind::Reordered, Some(after)) => format!("was accepted after {}", after.sequence),
        (Kind::LeftOutOfOrder, Some(after)) => format!("left after {}", after.sequence),
        (kind, _) => format!("is {}", words(*kind).0),
    };
    format!("message {sequence}{key}, epoch {epoch}, {what}{line}")
}

/// Reasons why the proof is incomplete.
fn notes(history: &History, report: &Report, is_torn: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if report.counts.contains_key(&Kind::Missing) {
        notes.push(
            "If the journal begins later than the log, or was copied before these messages were \
             delivered, limit the range: --from-sequence, --to-sequence."
                .to_owned(),
        );
    }
    if !history.has_log {
        notes.push("Without a log, missing and unknown messages cannot be found.".to_owned());
    }
    if report.pending > 0 {
        notes.push(format!("{} not settled yet.", are(report.pending)));
    }
    if report.withdrawn > 0 {
        let text =
            "left without a delivery, although the receiver accepted them: their answers were lost";
        notes.push(format!("{} {text}.", counted(report.withdrawn, "message")));
    }
    if report.forgotten > 0 {
        let count = counted(report.forgotten, "message");
        notes.push(format!(
            "The log no longer has {count} of the journal: only their order is checked."
        ));
    }
    if is_torn {
        notes.push("The last line of the journal is incomplete, and does not count.".to_owned());
    }
    notes
}

fn are(count: u64) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(count, "message"))
}
