//! `reseq sources list|remove`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    confirm::Confirmation,
    output::{list, text_of},
};
use client::paths::{path_of, query};

/// The arguments of `reseq sources`.
#[derive(Debug, Clone, Args)]
pub struct SourcesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List the sources of a destination, each with the position of its last message
    List(ListArgs),
    /// Forget the mark (the last position) of a source that has ended or starts over
    Remove(RemoveArgs),
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
}

#[derive(Debug, Clone, Args)]
struct RemoveArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Name of the source
    source: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: SourcesArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(ListArgs { client, destination }) => {
            let answer = client.get(&path_of(&destination, "sources")).await?;
            client.print(&answer, |answer| list(answer, &["source", "mark"], row))
        }
        Command::Remove(args) => remove(args).await,
    }
}

async fn remove(args: RemoveArgs) -> anyhow::Result<()> {
    let RemoveArgs { client, destination, source, confirmation } = args;
    let question = async {
        Ok(format!(
            "Messages of {source} may then arrive a second time at {destination}. Forget its mark?"
        ))
    };
    confirmation.ask(question).await?;
    let fields = query(&[("name", Some(json!(source)))]);
    let answer = client.delete(&format!("{}{fields}", path_of(&destination, "sources"))).await?;
    client.print(&answer, |answer| {
        let what = if answer["removed"] == true { "its mark is gone" } else { "it had no mark" };
        format!("{}: {what}", text_of(answer, "name"))
    })
}

fn row(source: &Value) -> Vec<String> {
    vec![text_of(source, "name"), text_of(source, "mark")]
}
