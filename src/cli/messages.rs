//! `reseq messages`: lists the pending messages of a destination.

use clap::Args;
use serde_json::Value;

use super::common::{At, error_of, human_age, list, path_of, query, text_of};

/// The arguments of `reseq messages`.
#[derive(Debug, Clone, Args)]
pub struct MessagesArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Only this state: waiting, processing, delayed, ready or halted
    #[arg(long)]
    state: Option<String>,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only this sequence and later
    #[arg(long)]
    from: Option<u64>,
    /// Maximum number of messages, 1 to 1,000
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

const COLUMNS: [&str; 8] =
    ["sequence", "key", "state", "age", "attempts", "bytes", "due", "last error"];

/// Runs the command.
pub async fn run(args: MessagesArgs) -> anyhow::Result<()> {
    let query = query(&[
        ("state", args.state),
        ("key", args.key),
        ("from", args.from.map(|from| from.to_string())),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor),
    ]);
    let answer = args.at.get(&path_of(&args.destination, &format!("messages{query}"))).await?;
    args.at.print(&answer, |answer| list(answer, &COLUMNS, row));
    Ok(())
}

fn row(item: &Value) -> Vec<String> {
    let mut state = text_of(item, "state");
    if item["withdrawing"] == true {
        state += ", to leave";
    }
    vec![
        text_of(item, "sequence"),
        text_of(item, "key"),
        state,
        human_age(item["age_ms"].as_u64().unwrap_or_default()),
        text_of(item, "attempts"),
        text_of(item, "bytes"),
        text_of(item, "due_at"),
        error_of(item),
    ]
}
