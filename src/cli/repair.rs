//! `reseq repair`: repairs contradictions between the sets and records of a destination.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::{
    common::{At, object, path_of, plain, table, text_of},
    purge::is_sure,
};

/// The exit code if anything was found, repaired or not.
pub const FOUND: u8 = 3;

/// The arguments of `reseq repair`.
#[derive(Debug, Clone, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Only show what would be repaired
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Searches, asks for confirmation, and repairs. True if anything was found.
pub async fn run(args: RepairArgs) -> anyhow::Result<bool> {
    let path = path_of(&args.destination, "repair");
    let request = |dry_run: bool| object(&[("dry_run", dry_run.then_some(json!(true)))]);
    if !args.dry_run && !args.yes {
        let found = args.at.post(&path, &request(true)).await?;
        if found["found"] == 0 {
            args.at.print(&found, words);
            return Ok(false);
        }
        eprintln!("{}", words(&found).trim_end());
        let question = format!("Repair {} of {}?", found["found"], args.destination);
        if !is_sure(&question)? {
            bail!("nothing was repaired");
        }
    }
    let answer = args.at.post(&path, &request(args.dry_run)).await?;
    args.at.print(&answer, words);
    Ok(answer["found"] != 0)
}

fn words(answer: &Value) -> String {
    let header = ["FOUND", "REPAIRED", "KIND", "WHAT IT IS", "EXAMPLES"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for item in answer["items"].as_array().into_iter().flatten() {
        let examples = item["examples"].as_array().into_iter().flatten();
        let examples: Vec<String> =
            examples.filter_map(Value::as_str).map(|text| plain(text).to_owned()).collect();
        let mut row = ["found", "repaired", "kind", "detail"].map(|f| text_of(item, f)).to_vec();
        row.push(examples.join(" "));
        rows.push(row);
    }
    let mut text = if rows.len() == 1 { "nothing to repair\n".to_owned() } else { table(&rows) };
    if answer["counters_verified"] == false {
        text +=
            "the counters could not be compared: they changed on every attempt to count messages\n";
    }
    text
}
