//! `reseq repair`: repairs contradictions between the sets and records of a destination.

use clap::Args;
use serde_json::Value;

use super::{
    bulk::{BulkArgs, until_end},
    client_args::ClientArgs,
    confirm::Confirmation,
    exit::Exit,
    output::{Output, count_of, plain, table, text_of},
};
use client::paths::{flag, object};

/// The arguments of `reseq repair`.
#[derive(Debug, Clone, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Only show what would be repaired
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Searches for contradictions, asks for confirmation, and repairs them.
pub async fn run(args: RepairArgs) -> anyhow::Result<Exit> {
    let RepairArgs { client, destination, dry_run, bulk, confirmation } = args;
    let request = |dry_run| object(&[("dry_run", flag(dry_run))]);
    if !dry_run && !confirmation.yes {
        let waits = BulkArgs { detach: false };
        let found = until_end(&client, &waits, &destination, "repair", &request(true)).await?;
        // If the dry run finds nothing, ask nothing.
        let Some(found) = found else { return Ok(Exit::Ok) };
        if count_of(&found, "matched") == 0 {
            client.print(&found, |found| words(found))?;
            return Ok(Exit::Ok);
        }
        if client.output == Output::Table {
            eprintln!("{}", words(&found).trim_end());
        }
        let question = async { Ok(format!("Repair {} of {destination}?", found["matched"])) };
        confirmation.ask(question).await?;
    }
    let ended = until_end(&client, &bulk, &destination, "repair", &request(dry_run)).await?;
    let Some(ended) = ended else { return Ok(Exit::Ok) };
    client.print(&ended, |ended| words(ended))?;
    Ok(if count_of(&ended, "matched") == 0 { Exit::Ok } else { Exit::Found })
}

fn words(answer: &Value) -> String {
    let header = ["FOUND", "REPAIRED", "KIND", "WHAT IT IS", "EXAMPLES"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for item in answer["items"].as_array().into_iter().flatten() {
        let examples = item["examples"].as_array().into_iter().flatten();
        let examples: Vec<String> = examples.filter_map(Value::as_str).map(plain).collect();
        let mut row = ["matched", "affected", "kind", "detail"].map(|f| text_of(item, f)).to_vec();
        row.push(examples.join(" "));
        rows.push(row);
    }
    let mut text = if rows.len() == 1 { "nothing to repair\n".to_owned() } else { table(&rows) };
    if answer["counters_verified"] == false {
        text += "not everything could be compared; repair again when the data does not change\n";
    }
    text
}
