//! `reseq dead-letters list` and `show`.

use clap::Args;
use serde_json::Value;

use super::selection::Filter;
use crate::{
    client_args::ClientArgs,
    filters::Paging,
    output::{error_of, in_lines, text_of},
};
use client::paths::path_of;

const COLUMNS: [&str; 7] =
    ["sequence", "key", "stage", "dead lettered", "bytes", "reason", "last error"];

/// The arguments of `reseq dead-letters list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    paging: Paging,
}

/// The arguments of `reseq dead-letters show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Sequence of the dead letter
    sequence: u64,
}

/// Lists dead letters.
pub async fn list(args: ListArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, "dead-letters");
    args.client.list((&path, &args.filter.fields()), &args.paging, &COLUMNS, row).await
}

/// Shows one dead letter.
pub async fn show(args: ShowArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, &format!("dead-letters/{}", args.sequence));
    let answer = args.client.get(&path).await?;
    args.client.print(&answer, |answer| in_lines(&answer.text))
}

fn row(item: &Value) -> Vec<String> {
    let fields = ["sequence", "key", "stage", "dead_lettered_at", "bytes", "reason"];
    let mut row: Vec<String> = fields.iter().map(|field| text_of(item, field)).collect();
    row.push(error_of(item));
    row
}
