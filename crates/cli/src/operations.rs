//! `reseq operations list|show|cancel`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    filters::Paging,
    output::{in_lines, text_of},
};
use client::paths::{path_of, percent_encoded};

const COLUMNS: [&str; 7] = ["id", "kind", "state", "started", "matched", "affected", "failed"];

/// The arguments of `reseq operations`.
#[derive(Debug, Clone, Args)]
pub struct OperationsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List the operations of the last seven days, the newest first
    List(ListArgs),
    /// Show one operation
    Show(OneArgs),
    /// Cancel a running operation. Changes that it has made stay
    Cancel(OneArgs),
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Args)]
struct OneArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Id of the operation
    id: String,
}

/// Runs the command.
pub async fn run(args: OperationsArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Show(OneArgs { client, destination, id }) => {
            let answer = client.get(&operation(&destination, &id, "")).await?;
            client.print(&answer, |answer| in_lines(&answer.text))
        }
        Command::Cancel(OneArgs { client, destination, id }) => {
            let path = operation(&destination, &id, "/cancel");
            let answer = client.post(&path, &json!({})).await?;
            client.print(&answer, |answer| match text_of(answer, "state").as_str() {
                "running" => format!("operation {id} stops within a second"),
                state => format!("operation {id} has ended before: it is {state}"),
            })
        }
    }
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, "operations");
    args.client.list((&path, &[]), &args.paging, &COLUMNS, row).await
}

/// The path of an operation.
fn operation(destination: &str, id: &str, rest: &str) -> String {
    path_of(destination, &format!("operations/{}{rest}", percent_encoded(id)))
}

fn row(operation: &Value) -> Vec<String> {
    let mut row = COLUMNS.map(|column| match column {
        "started" => text_of(operation, "started_at"),
        column => text_of(operation, column),
    });
    if operation["dry_run"] == true {
        row[1] += ", dry run";
    }
    row.to_vec()
}
