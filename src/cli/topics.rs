//! `reseq topics list|set|remove`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::common::{At, list as as_list, percent_encoded, text_of};

/// The arguments of `reseq topics`.
#[derive(Debug, Clone, Args)]
pub struct TopicsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List topics and their destinations
    List(At),
    /// Create a topic or replace its destinations
    Set {
        #[command(flatten)]
        at: At,
        /// Name of the topic
        topic: String,
        /// Destinations of the topic
        #[arg(required = true)]
        destinations: Vec<String>,
    },
    /// Remove a topic
    Remove {
        #[command(flatten)]
        at: At,
        /// Name of the topic
        topic: String,
    },
}

/// Runs the command.
pub async fn run(args: TopicsArgs) -> anyhow::Result<()> {
    let path_of = |topic: &str| format!("/v1/topics/{}", percent_encoded(topic));
    match args.command {
        Command::List(at) => {
            let answer = at.get("/v1/topics").await?;
            at.print(&answer, |answer| as_list(answer, &["topic", "destinations"], row));
        }
        Command::Set { at, topic, destinations } => {
            let answer = at.put(&path_of(&topic), &json!({"destinations": destinations})).await?;
            at.print(&answer, |answer| row(answer).join(" goes to "));
        }
        Command::Remove { at, topic } => {
            let answer = at.delete(&path_of(&topic)).await?;
            at.print(&answer, |answer| format!("{} was removed", text_of(answer, "removed")));
        }
    }
    Ok(())
}

fn row(topic: &Value) -> Vec<String> {
    let names = topic["destinations"].as_array().into_iter().flatten().filter_map(Value::as_str);
    vec![text_of(topic, "name"), names.collect::<Vec<_>>().join(", ")]
}
