//! `reseq lanes list|why|retry|skip`. To list the lanes with the most pending messages, the service scans the keys in
//! Redis part by part, and the command keeps the largest lanes of all parts.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    bulk::progress_bar,
    client_args::ClientArgs,
    durations::duration,
    output::{Output, count_of, human_age, plain, table, text_of},
    retry_head::{self, RetryHeadArgs},
    skip_head::{self, SkipHeadArgs},
    style,
    watch::WatchArgs,
    why::{self, WhyArgs},
};
use client::{
    Answer, Call, Service,
    paths::{path_of, query},
};

const COLUMNS: [&str; 8] = ["key", "pending", "ready", "head", "state", "age", "attempts", ""];
/// The width of the longest bar.
const BAR_WIDTH: u64 = 24;

/// The arguments of `reseq lanes`.
#[derive(Debug, Clone, Args)]
pub struct LanesArgs {
    #[command(subcommand)]
    command: Command,
}

/// The actions on lanes.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the lanes with the most pending messages
    List(ListArgs),
    /// Show what blocks a lane, and what to do
    Why(WhyArgs),
    /// Retry the head of a lane now, optionally with a corrected body
    Retry(RetryHeadArgs),
    /// Make the head of a lane a dead letter, so that the lane continues
    Skip(SkipHeadArgs),
}

/// Runs the command.
pub async fn run(args: LanesArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Why(args) => why::run(args).await,
        Command::Retry(args) => retry_head::run(args).await,
        Command::Skip(args) => skip_head::run(args).await,
    }
}

/// The arguments of `reseq lanes list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// The most lanes to list, 1 to 100
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Stop the scan after this time, and show what it found
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    scan_time: Duration,
    #[command(flatten)]
    watch: WatchArgs,
}

/// The largest lanes of all parts that the scan has visited.
#[derive(Default)]
struct Found {
    ordering: String,
    /// Lanes by key, because a scan may visit a key twice.
    lanes: HashMap<Option<String>, Value>,
    progress: Option<f64>,
    is_complete: bool,
}

/// Scans, and prints the lanes.
async fn list(args: ListArgs) -> anyhow::Result<()> {
    args.watch.print(args.client.output, async || shown(&args).await).await
}

async fn shown(args: &ListArgs) -> anyhow::Result<String> {
    let service = args.client.service()?;
    let mut found = Found::default();
    let scanned = tokio::select! {
        scanned = found.scan(&service, args) => scanned,
        // On Ctrl-C, show the lanes found so far.
        signal = tokio::signal::ctrl_c(), if !args.watch.watch => Ok(signal?),
    };
    args.client.print_problem(&scanned)?;
    scanned?;
    let lanes = found.largest(args.limit as usize);
    match args.client.output {
        Output::Table => Ok(found.shown(&args.destination, &lanes)),
        output => output.render(&found.json(&lanes).to_string()),
    }
}

impl Found {
    /// Visits all parts, until the time is over.
    async fn scan(&mut self, service: &Service, args: &ListArgs) -> anyhow::Result<()> {
        let (begun, bar) = (Instant::now(), progress_bar());
        let mut cursor = None;
        loop {
            let fields = [("limit", Some(args.limit.into())), ("cursor", cursor.take())];
            let path = path_of(&args.destination, &format!("lanes{}", query(&fields)));
            let part = service.call(Call::get(&path)).await?;
            self.add(&part);
            self.keep(args.limit as usize);
            if part["next_cursor"].is_null() {
                self.is_complete = true;
                break;
            }
            if begun.elapsed() >= args.scan_time {
                break;
            }
            cursor = Some(part["next_cursor"].clone());
            bar.set_message(self.visited());
            bar.tick();
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn add(&mut self, part: &Answer) {
        self.ordering = text_of(part, "ordering");
        self.progress = part["progress"].as_f64();
        for lane in part["items"].as_array().into_iter().flatten() {
            self.lanes.insert(lane["key"].as_str().map(str::to_owned), lane.clone());
        }
    }

    fn keep(&mut self, max: usize) {
        let largest = self.largest(max);
        self.lanes.retain(|_, lane| largest.contains(lane));
    }

    /// The `max` largest lanes, the largest first.
    fn largest(&self, max: usize) -> Vec<Value> {
        let mut lanes: Vec<Value> = self.lanes.values().cloned().collect();
        let size = |lane: &Value| std::cmp::Reverse(count_of(lane, "pending"));
        lanes.sort_by_key(|lane| (size(lane), text_of(lane, "key")));
        lanes.truncate(max);
        lanes
    }

    fn visited(&self) -> String {
        match self.progress {
            Some(share) => format!("{:.0} % of the keys in Redis are visited", share * 100.0),
            None => "the keys in Redis are being visited".to_owned(),
        }
    }

    fn json(&self, lanes: &[Value]) -> Value {
        let (progress, complete) = (self.progress, self.is_complete);
        json!({"ordering": self.ordering, "items": lanes, "complete": complete,
            "progress": progress})
    }

    fn shown(&self, destination: &str, lanes: &[Value]) -> String {
        let mut text = match (lanes, self.ordering.as_str()) {
            (_, "none") => format!(
                "{destination} has no order: each message is a lane of its own; \
                 see reseq messages list {destination}\n"
            ),
            ([], _) if self.is_complete => "nothing is pending\n".to_owned(),
            ([], _) => String::new(),
            (lanes, _) => {
                let most = lanes.iter().map(|lane| count_of(lane, "pending")).max();
                let rows = lanes.iter().map(|lane| row(lane, most.unwrap_or(1)));
                table(
                    &std::iter::once(COLUMNS.map(str::to_owned).to_vec())
                        .chain(rows)
                        .collect::<Vec<_>>(),
                )
            }
        };
        if !self.is_complete {
            let visited = self.visited();
            text += &format!("partial: {visited}; --scan-time gives the scan more time\n");
        }
        text
    }
}

fn row(lane: &Value, most: u64) -> Vec<String> {
    let head = &lane["head"];
    let pending = count_of(lane, "pending");
    let age = head["age_ms"].as_u64().map(human_age).unwrap_or_default();
    vec![
        lane["key"].as_str().map_or("-".to_owned(), |key| format!("{:?}", plain(key))),
        pending.to_string(),
        text_of(lane, "ready"),
        text_of(head, "sequence"),
        text_of(head, "state"),
        age,
        text_of(head, "attempts"),
        style::paint(
            style::ACTION,
            &"█".repeat((pending * BAR_WIDTH).div_ceil(most.max(1)) as usize),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_lanes_of_all_parts_are_shown_with_bars() {
        let lane = |key: &str, pending: u64| {
            json!({"key": key, "pending": pending, "ready": 1, "head": {"sequence": 7,
                "state": "halted", "age_ms": 61_000, "attempts": 3}})
        };
        let mut found = Found { ordering: "key".to_owned(), ..Found::default() };
        for lane in [lane("a", 1), lane("b\u{1b}", 48), lane("c", 24), lane("a", 2)] {
            found.lanes.insert(lane["key"].as_str().map(str::to_owned), lane);
        }
        found.keep(3);
        found.progress = Some(0.25);
        let lanes = found.largest(2);
        let text = anstream::adapter::strip_str(&found.shown("erp", &lanes)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("\"b\\\\u{1b}\"") && lines[1].contains("1 min 1 s"), "{text}");
        assert!(lines[1].ends_with(&"█".repeat(24)), "{text}");
        assert!(lines[2].ends_with(&format!(" {}", "█".repeat(12))), "{text}");
        assert!(lines[3].starts_with("partial: 25 % of the keys"), "{text}");
        assert_eq!(found.json(&lanes)["complete"], false);
        found.is_complete = true;
        assert_eq!(found.shown("erp", &lanes).lines().count(), 3);
        assert_eq!(found.shown("erp", &[]), "nothing is pending\n");
    }
}
