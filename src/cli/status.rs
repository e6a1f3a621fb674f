//! `reseq status`: every destination's numbers, as a table.

use std::{fmt::Write, io::IsTerminal, time::Duration};

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Service;

/// Destinations asked at once.
const ASKED_MAX: usize = 16;
/// How often `--watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The most pages of destinations: a service that never comes to an end is broken.
const PAGES_MAX: usize = 1_000;
/// The names of the columns.
const COLUMNS: [&str; 11] = [
    "destination",
    "last",
    "waiting",
    "processing",
    "ready",
    "delivering",
    "delayed",
    "delivered",
    "head",
    "age",
    "blocked by",
];

/// The arguments of `reseq status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Where the service listens.
    #[arg(long, env = "RESEQ_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Show it again every second, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Print what the service says as JSON, in place of the table: one line each time.
    #[arg(long)]
    pub json: bool,
}

/// A page of definitions.
#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

/// The numbers of a destination that the table shows. A field that an older service does not have
/// is shown as zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    last_sequence: u64,
    waiting: u64,
    processing: u64,
    ready: u64,
    delivering: u64,
    delayed: u64,
    delivered_total: u64,
    head: Option<Head>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    sequence: u64,
    key: Option<String>,
    state: String,
    age_ms: u64,
    blocked_by: Option<String>,
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
            // A service that is away for a while is something to watch, too.
            text = shown(&service, args.json) => {
                text.unwrap_or_else(|error| format!("{error:#}\n"))
            }
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        };
        // Home and clear to the end: without the flicker of clearing first.
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
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for (name, stats) in all {
        rows.push(row(name, serde_json::from_value(stats)?));
    }
    match rows.len() {
        1 => Ok("There are no destinations.\n".to_owned()),
        _ => Ok(table(&rows)),
    }
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
        // Without stats it was removed just now.
        anyhow::Ok(stats.map(|stats| (name, stats)))
    });
    let all: Vec<Option<_>> = asked.buffered(ASKED_MAX).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

fn percent_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn row(name: String, stats: Stats) -> [String; COLUMNS.len()] {
    let (mut head, mut age, mut blocked_by) = ("-".to_owned(), "-".to_owned(), "-".to_owned());
    if let Some(oldest) = stats.head {
        let of_key = oldest.key.map(|key| format!(" of {key:?}")).unwrap_or_default();
        head = format!("{} ({}){of_key}", oldest.sequence, oldest.state);
        age = human_age(oldest.age_ms);
        blocked_by = oldest.blocked_by.unwrap_or(blocked_by);
    }
    let number = |number: u64| number.to_string();
    [
        name,
        number(stats.last_sequence),
        number(stats.waiting),
        number(stats.processing),
        number(stats.ready),
        number(stats.delivering),
        number(stats.delayed),
        number(stats.delivered_total),
        head,
        age,
        blocked_by,
    ]
}

fn human_age(age_ms: u64) -> String {
    let seconds = age_ms / 1000;
    match seconds {
        0 => format!("{age_ms} ms"),
        1..60 => format!("{}.{} s", seconds, age_ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Numbers to the right, words to the left, columns as wide as their widest cell.
fn table(rows: &[[String; COLUMNS.len()]]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match at {
                1..=7 | 9 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
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
            COLUMNS.map(str::to_owned),
            row("erp".into(), serde_json::from_value(erp).unwrap()),
            row("quite-a-long-name".into(), Stats::default()),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("33 (processing)  1 min 1 s  transform"), "{text}");
        let end_of = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end_of(lines[0], "last"), end_of(lines[1], "1042"));
        assert_eq!(lines[0].find("head"), lines[1].find("33 ("));
    }

    #[test]
    fn ages_are_for_people() {
        let ages = [7, 999, 1_000, 59_999, 61_000, 3_600_000].map(human_age);
        assert_eq!(ages, ["7 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 0 min"]);
    }
}
