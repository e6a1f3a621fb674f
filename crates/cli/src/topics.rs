//! `reseq topics list|show|apply|delete`.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{
    apply::{ApplyArgs, Noun, apply},
    client_args::ClientArgs,
    confirm::Confirmation,
    filters::Paging,
    output::{in_lines, text_of},
};
use client::paths::path_of_topic;

/// Files with topics.
pub const NOUN: Noun =
    Noun { table: "topic", path_of: path_of_topic, changing: "destinations", has_diff: false };

/// The arguments of `reseq topics`.
#[derive(Debug, Clone, Args)]
pub struct TopicsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List topics and their destinations
    List(ListArgs),
    /// Show a topic
    Show(ShowArgs),
    /// Create or change the topics that a file defines
    Apply(ApplyArgs),
    /// Delete a topic
    Delete(DeleteArgs),
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Args)]
struct ShowArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the topic
    topic: String,
}

#[derive(Debug, Clone, Args)]
struct DeleteArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: TopicsArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(ListArgs { client, paging }) => {
            client.list(("/v1/topics", &[]), &paging, &["topic", "destinations"], row).await
        }
        Command::Show(ShowArgs { client, topic }) => {
            let answer = client.get(&path_of_topic(&topic)).await?;
            client.print(&answer, |answer| in_lines(&answer.text))
        }
        Command::Apply(args) => apply(args, &NOUN).await,
        Command::Delete(args) => delete(args).await,
    }
}

async fn delete(args: DeleteArgs) -> anyhow::Result<()> {
    let DeleteArgs { client, topic, confirmation } = args;
    let path = path_of_topic(&topic);
    let question = async {
        let destinations = names(&*client.get(&path).await?);
        Ok(format!("{topic} has the destinations {destinations}, which stay. Delete the topic?"))
    };
    confirmation.ask(question).await?;
    let answer = client.delete(&path).await?;
    client.print(&answer, |answer| format!("{} was deleted", text_of(answer, "removed")))
}

fn row(topic: &Value) -> Vec<String> {
    vec![text_of(topic, "name"), names(topic)]
}

/// The destinations of a topic.
fn names(topic: &Value) -> String {
    let names = topic["destinations"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}
