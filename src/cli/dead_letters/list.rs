//! `reseq dead-letters list` and `show`.

use clap::Args;
use serde_json::Value;

use crate::cli::{
    common::{At, error_of, list as as_list, path_of, query, text_of},
    show::in_lines,
};

const COLUMNS: [&str; 7] =
    ["sequence", "key", "stage", "set aside", "bytes", "reason", "last error"];

/// The arguments of `reseq dead-letters list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only those that failed in this stage: transform or delivery
    #[arg(long)]
    stage: Option<String>,
    /// Only those with this text in their reason or in one of their errors
    #[arg(long)]
    reason: Option<String>,
    /// Only this sequence and later
    #[arg(long)]
    from: Option<u64>,
    /// Maximum number of dead letters, 1 to 1,000
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

/// The arguments of `reseq dead-letters show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Sequence of the dead letter
    sequence: u64,
}

/// Lists dead letters.
pub async fn list(args: ListArgs) -> anyhow::Result<()> {
    let query = query(&[
        ("key", args.key),
        ("stage", args.stage),
        ("reason", args.reason),
        ("from", args.from.map(|from| from.to_string())),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor),
    ]);
    let answer = args.at.get(&path_of(&args.destination, &format!("dead-letters{query}"))).await?;
    args.at.print(&answer, |answer| as_list(answer, &COLUMNS, row));
    Ok(())
}

/// Shows one dead letter.
pub async fn show(args: ShowArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, &format!("dead-letters/{}", args.sequence));
    let answer = args.at.get(&path).await?;
    args.at.print(&answer, |_| in_lines(&answer.text));
    Ok(())
}

fn row(item: &Value) -> Vec<String> {
    let fields = ["sequence", "key", "stage", "dead_lettered_at", "bytes", "reason"];
    let mut row: Vec<String> = fields.iter().map(|field| text_of(item, field)).collect();
    row.push(error_of(item));
    row
}
