//! `reseq status`: shows the numbers of all destinations as a table.

use std::{io::IsTerminal, time::Duration};

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    client::Service,
    common::{error_of, human_age, path_of, percent_encoded, table, text_of},
};

/// Destinations queried at once.
const ASKED_MAX: usize = 16;
/// How often `--watch` updates.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The most pages of destinations, in case a broken service never ends the list.
const PAGES_MAX: usize = 1_000;
/// The most lines about what blocks a destination.
const BLOCKS_MAX: usize = 3;
/// The names of the columns.
const COLUMNS: [&str; 14] = [
    "destination",
    "last",
    "waiting",
    "processing",
    "ready",
    "delivering",
    "delayed",
    "halted",
    "dead_letters",
    "delivered",
    "paused",
    "head",
    "age",
    "blocked by",
];

/// The arguments of `reseq status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// URL of the service
    #[arg(long, env = "RESEQ_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Update every second until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Print JSON, one line for each update, instead of a table
    #[arg(long)]
    pub json: bool,
}

/// A page of definitions.
#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

/// The numbers of a destination in the table. A field that an older service lacks is shown as zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    last_sequence: u64,
    waiting: u64,
    processing: u64,
    ready: u64,
    delivering: u64,
    delayed: u64,
    halted: u64,
    dead_letters: u64,
    delivered_total: u64,
    paused: Paused,
    head: Option<Head>,
    heads: Vec<Head>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Paused {
    ingest: bool,
    delivery: bool,
}

impl Paused {
    fn shown(&self) -> &'static str {
        match (self.ingest, self.delivery) {
            (false, false) => "-",
            (true, false) => "ingest",
            (false, true) => "delivery",
            (true, true) => "both",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    sequence: u64,
    key: Option<String>,
    state: String,
    age_ms: u64,
    blocked_by: Option<String>,
    attempts: u32,
    #[serde(default)]
    stalls: u32,
}

impl Head {
    /// Failed attempts.
    fn failures(&self) -> u32 {
        self.attempts + self.stalls
    }

    fn is_halted(&self) -> bool {
        self.state == "halted"
    }
}

/// Prints the table, once or until Ctrl-C.
pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let service = Service::at(&args.url)?;
    if !args.watch {
        print!("{}", shown(&service, args.json).await?);
        return Ok(());
    }
    let clear = std::io::stdout().is_terminal() && !args.json;
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        }
        let text = tokio::select! {
            // With `--watch`, show a service that does not answer and continue.
            text = shown(&service, args.json) => {
                text.unwrap_or_else(|error| format!("{error:#}\n"))
            }
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        };
        // Move home and clear to the end, which does not flicker.
        let home = if clear { "\x1b[H\x1b[J" } else { "" };
        print!("{home}{text}");
    }
}

async fn shown(service: &Service, as_json: bool) -> anyhow::Result<String> {
    let all = ask(service).await?;
    if as_json {
        let items: Vec<Value> = all
            .into_iter()
            .map(|(name, stats)| json!({"destination": name, "stats": stats}))
            .collect();
        return Ok(format!("{}\n", json!({ "items": items })));
    }
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut all_blocks = Vec::new();
    for (name, stats) in all {
        let stats: Stats = serde_json::from_value(stats)?;
        rows.push(row(&name, &stats));
        all_blocks.push(blocks(service, &name, &stats).await?);
    }
    match rows.len() {
        1 => Ok("There are no destinations.\n".to_owned()),
        _ => Ok(interleaved(&table(&rows), &all_blocks)),
    }
}

/// Each destination's line of the table, followed by what blocks it.
fn interleaved(table: &str, all_blocks: &[Vec<String>]) -> String {
    let mut lines = table.lines();
    let mut text: String = lines.next().map(|head| format!("{head}\n")).unwrap_or_default();
    for (line, blocks) in lines.zip(all_blocks) {
        text += &format!("{line}\n");
        text.extend(blocks.iter().map(|block| format!("  ! {block}\n")));
    }
    text
}

/// Every destination with its numbers, in the service's order.
async fn ask(service: &Service) -> anyhow::Result<Vec<(String, Value)>> {
    let mut names = Vec::new();
    let mut path = "/v1/destinations".to_owned();
    for _ in 0..PAGES_MAX {
        let Some(page) = service.get::<Page>(&path).await? else {
            anyhow::bail!("{} has no destinations: is it Reseq?", service.url());
        };
        let name = |item: &Value| item["name"].as_str().map(str::to_owned);
        names.extend(page.items.iter().filter_map(name));
        let Some(cursor) = page.next_cursor else { break };
        path = format!("/v1/destinations?cursor={}", percent_encoded(&cursor));
    }
    let asked = stream::iter(names).map(|name| async move {
        let stats = service.get(&format!("/v1/destinations/{name}/stats")).await?;
        // Without stats, it has just been removed.
        anyhow::Ok(stats.map(|stats| (name, stats)))
    });
    let all: Vec<Option<_>> = asked.buffered(ASKED_MAX).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

/// The line of a destination.
fn row(name: &str, stats: &Stats) -> Vec<String> {
    let (mut head, mut age, mut blocked_by) = ("-".to_owned(), "-".to_owned(), "-".to_owned());
    if let Some(oldest) = &stats.head {
        let of_key = oldest.key.as_ref().map(|key| format!(" of {key:?}")).unwrap_or_default();
        head = format!("{} ({}){of_key}", oldest.sequence, oldest.state);
        age = human_age(oldest.age_ms);
        blocked_by = oldest.blocked_by.clone().unwrap_or(blocked_by);
    }
    let numbers = [
        stats.last_sequence,
        stats.waiting,
        stats.processing,
        stats.ready,
        stats.delivering,
        stats.delayed,
        stats.halted,
        stats.dead_letters,
        stats.delivered_total,
    ];
    let mut row = vec![name.to_owned()];
    row.extend(numbers.map(|number| number.to_string()));
    row.extend([stats.paused.shown().to_owned(), head, age, blocked_by]);
    row
}

/// What blocks a destination and needs an operator, one line each, with the command that helps.
async fn blocks(service: &Service, name: &str, stats: &Stats) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for (is_paused, what) in [(stats.paused.ingest, "ingest"), (stats.paused.delivery, "delivery")]
    {
        if is_paused {
            lines.push(format!("{what} is paused; reseq resume {name} {what}"));
        }
    }
    let heads = match stats.heads.is_empty() {
        true => stats.head.as_slice(),
        false => &stats.heads,
    };
    let stuck: Vec<&Head> =
        heads.iter().filter(|head| head.failures() > 0 || head.is_halted()).collect();
    for head in stuck.iter().take(BLOCKS_MAX) {
        let path = path_of(name, &format!("messages/{}", head.sequence));
        // Without an answer, it has just left.
        if let Some(message) = service.get::<Value>(&path).await? {
            lines.push(block(name, head, &message));
        }
    }
    let more = stuck.len().saturating_sub(BLOCKS_MAX);
    if more > 0 {
        lines.push(format!("and more; reseq messages {name} --state halted"));
    }
    Ok(lines)
}

/// A head that is stuck.
fn block(name: &str, head: &Head, message: &Value) -> String {
    let sequence = head.sequence;
    let of_key = head.key.as_ref().map(|key| format!(" of key {key:?}")).unwrap_or_default();
    let error = match error_of(message) {
        none if none.is_empty() => none,
        error => format!(" ({error})"),
    };
    if !head.is_halted() {
        let (by, attempts) = (head.blocked_by.as_deref().unwrap_or("it"), head.failures());
        return format!(
            "{sequence}{of_key}: {by} has failed {attempts} times, and is being retried{error}; \
             reseq show {name} {sequence}"
        );
    }
    let key = match &head.key {
        Some(key) => format!(" --key {}", quoted(key)),
        None => String::new(),
    };
    format!(
        "{sequence}{of_key} is halted since {}{error}; reseq retry-head {name}{key} --sequence \
         {sequence}, or skip-head",
        text_of(message, "halted_at"),
    )
}

/// Quotes a text for the shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_shows_why_a_destination_waits() {
        let erp = json!({"last_sequence": 1042, "waiting": 3, "ready": 2, "delivering": 1,
            "delivered_total": 32, "a_new_field": 1,
            "head": {"sequence": 33, "key": null, "state": "processing", "age_ms": 61_812,
                     "blocked_by": "transform"}});
        let rows = [
            COLUMNS.map(str::to_owned).to_vec(),
            row("erp", &serde_json::from_value(erp).unwrap()),
            row("quite-a-long-name", &Stats::default()),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("33 (processing)  1 min 1 s  transform"), "{text}");
        let end_of = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end_of(lines[0], "last"), end_of(lines[1], "1042"));
        assert_eq!(lines[0].find("head"), lines[1].find("33 ("));
        let blocks = [vec!["why".to_owned()], Vec::new()];
        let whole = interleaved(&text, &blocks);
        assert_eq!(whole.lines().nth(2), Some("  ! why"), "{whole}");
        assert_eq!(whole.lines().count(), 4);
    }

    #[test]
    fn a_halted_head_is_named_with_the_command_that_helps() {
        let head = Head { sequence: 7, key: Some("a b".into()), ..Head::default() };
        let halted = Head { state: "halted".into(), ..head };
        let message = json!({"halted_at": "2026-11-21T10:00:00Z",
            "last_error": {"kind": "status", "status": 422, "detail": "no\nand more"}});
        assert_eq!(
            block("erp", &halted, &message),
            "7 of key \"a b\" is halted since 2026-11-21T10:00:00Z (status 422: no); \
             reseq retry-head erp --key 'a b' --sequence 7, or skip-head"
        );
    }
}
