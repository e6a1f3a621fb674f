//! `reseq destinations list|put|delete`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::common::{At, list as as_list, percent_encoded, text_of};

/// The arguments of `reseq destinations`.
#[derive(Debug, Clone, Args)]
pub struct DestinationsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List destinations
    List(At),
    /// Create or replace the destination that a JSON file defines
    Put {
        #[command(flatten)]
        at: At,
        /// JSON file with a definition, including its "name"
        file: PathBuf,
    },
    /// Remove a destination
    Delete {
        #[command(flatten)]
        at: At,
        /// Name of the destination
        destination: String,
        /// Remove its pending messages and dead letters too
        #[arg(long)]
        force: bool,
    },
}

/// Runs the command.
pub async fn run(args: DestinationsArgs) -> anyhow::Result<()> {
    let path_of = |name: &str| format!("/v1/destinations/{}", percent_encoded(name));
    match args.command {
        Command::List(at) => {
            let answer = at.get("/v1/destinations").await?;
            let columns = ["destination", "ordering", "transform", "url", "version"];
            at.print(&answer, |answer| as_list(answer, &columns, row));
        }
        Command::Put { at, file } => {
            let shown = file.display();
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("reading {shown}"))?;
            let definition: Value =
                serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
            let name = definition["name"].as_str();
            let name =
                name.with_context(|| format!("{shown} names no destination: add a name field"))?;
            let answer = at.put(&path_of(name), &definition).await?;
            let version = |answer: &Value| format!("{name} has version {}", answer["version"]);
            at.print(&answer, version);
        }
        Command::Delete { at, destination, force } => {
            let query = if force { "?force=true" } else { "" };
            let answer = at.delete(&format!("{}{query}", path_of(&destination))).await?;
            at.print(&answer, |answer| {
                let (name, removed_messages) =
                    (text_of(answer, "removed"), &answer["removed_messages"]);
                format!("{name} was removed, with {removed_messages} pending messages")
            });
        }
    }
    Ok(())
}

fn row(destination: &Value) -> Vec<String> {
    vec![
        text_of(destination, "name"),
        text_of(destination, "ordering"),
        text_of(&destination["transform"], "kind"),
        text_of(destination, "url"),
        text_of(destination, "version"),
    ]
}
