//! `reseq log`: shows the outcome of the last messages.

use clap::Args;
use serde_json::Value;

use super::common::{At, human_age, list, path_of, query, text_of};

/// The arguments of `reseq log`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Maximum number of messages, 1 to 1,000
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

const COLUMNS: [&str; 7] = ["sequence", "key", "outcome", "settled", "attempts", "took", "id"];

/// Lists them, newest first.
pub async fn run(args: LogArgs) -> anyhow::Result<()> {
    let query = query(&[("limit", Some(args.limit.to_string())), ("cursor", args.cursor)]);
    let answer = args.at.get(&path_of(&args.destination, &format!("log{query}"))).await?;
    args.at.print(&answer, |answer| list(answer, &COLUMNS, row));
    Ok(())
}

fn row(item: &Value) -> Vec<String> {
    let mut state = text_of(item, "state");
    if item["dead_letter"] == true {
        state += ", a dead letter";
    }
    vec![
        text_of(item, "sequence"),
        text_of(item, "key"),
        state,
        text_of(item, "settled_at"),
        text_of(item, "attempts"),
        human_age(item["latency"]["total_ms"].as_u64().unwrap_or_default()),
        text_of(item, "id"),
    ]
}
