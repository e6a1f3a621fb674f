//! `reseq log`: shows the outcome of the last messages.

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use serde_json::Value;

use super::{
    client_args::ClientArgs,
    filters::{Paging, Range},
    output::{Output, count_of, human_age, plain, table, text_of, write_out},
};
use client::{
    Call, Service,
    paths::{path_of, query, text},
};

/// How often `--follow` reads the log.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// The most pages that `--follow` reads at a time. If more messages left, it skips some.
const FOLLOW_PAGES_MAX: usize = 100;

const COLUMNS: [&str; 7] = ["sequence", "key", "outcome", "settled", "attempts", "took", "id"];
/// The final states of messages.
const STATES: [&str; 4] = ["delivered", "dropped", "dead_lettered", "cancelled"];

/// The arguments of `reseq log`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only messages that left in this state
    #[arg(long, value_parser = PossibleValuesParser::new(STATES))]
    state: Option<String>,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    paging: Paging,
    /// Print the last messages, the oldest first, and then each message that leaves, until Ctrl-C
    #[arg(
        short,
        long,
        conflicts_with_all = ["from_sequence", "to_sequence", "from_time", "to_time", "limit", "all", "cursor"]
    )]
    follow: bool,
}

/// Lists the entries, newest first; or follows the log.
pub async fn run(args: LogArgs) -> anyhow::Result<()> {
    if args.follow {
        return tokio::select! {
            followed = follow(&args) => followed,
            signal = tokio::signal::ctrl_c() => Ok(signal?),
        };
    }
    let mut fields =
        vec![("key", text(args.key.as_deref())), ("state", text(args.state.as_deref()))];
    fields.extend(args.range.fields());
    let path = path_of(&args.destination, "log");
    args.client.list((&path, &fields), &args.paging, &COLUMNS, row).await
}

/// Prints the last page, and then each message that leaves.
async fn follow(args: &LogArgs) -> anyhow::Result<()> {
    let (service, output) = (args.client.service()?, args.client.output);
    let mut ticks = tokio::time::interval(FOLLOW_EVERY);
    let (mut known, mut columns) = (None, Some(COLUMNS.map(str::to_owned).to_vec()));
    loop {
        ticks.tick().await;
        // The first read must succeed. Later reads may fail, because a pod may restart.
        let new = match newer_than(&service, &args.destination, &known).await {
            Err(error) if known.is_some() => {
                eprintln!("reseq: {error:#}");
                continue;
            }
            read => {
                args.client.print_problem(&read)?;
                read?
            }
        };
        if let Some(newest) = new.first() {
            if let Some(shard) = newest["shard"].as_str() {
                let name = &args.destination;
                anyhow::bail!(
                    "{name} has shards, and each has a log of its own: follow one, such as {shard}"
                );
            }
            known = Some(newest["sequence"].clone());
        }
        let wanted = new.iter().rev().filter(|item| args.takes(item));
        match output {
            Output::Table => {
                let rows: Vec<Vec<String>> =
                    columns.take().into_iter().chain(wanted.map(row)).collect();
                if !rows.is_empty() {
                    write_out(&table(&rows))?;
                }
            }
            output => {
                for item in wanted {
                    write_out(&output.render(&item.to_string())?)?;
                }
            }
        }
    }
}

/// The entries of the log after the entry `known`, the newest first. If `known` is `None`: the last page.
async fn newer_than(
    service: &Service,
    destination: &str,
    known: &Option<Value>,
) -> anyhow::Result<Vec<Value>> {
    let (mut new, mut cursor) = (Vec::new(), None);
    for _ in 0..FOLLOW_PAGES_MAX {
        let path = path_of(destination, &format!("log{}", query(&[("cursor", cursor.take())])));
        let page = service.call(Call::get(&path)).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            if known.as_ref() == Some(&item["sequence"]) {
                return Ok(new);
            }
            new.push(item.clone());
        }
        cursor = Some(page["next_cursor"].clone()).filter(|cursor| !cursor.is_null());
        if known.is_none() || cursor.is_none() {
            break;
        }
    }
    Ok(new)
}

impl LogArgs {
    /// True if the entry passes the filters.
    fn takes(&self, item: &Value) -> bool {
        let key = item["key"].as_str().unwrap_or_default();
        self.key.as_deref().is_none_or(|wanted| wanted == key)
            && self.state.as_deref().is_none_or(|wanted| item["state"] == *wanted)
    }
}

fn row(item: &Value) -> Vec<String> {
    let mut state = text_of(item, "state");
    if item["dead_letter"] == true {
        state += ", a dead letter";
    }
    if let Some(damaged) = item["damaged"].as_str() {
        state = format!("damaged: {}", plain(damaged));
    }
    vec![
        text_of(item, "sequence"),
        text_of(item, "key"),
        state,
        text_of(item, "settled_at"),
        text_of(item, "attempts"),
        human_age(count_of(&item["latency"], "total_ms")),
        text_of(item, "id"),
    ]
}
