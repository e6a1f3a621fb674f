//! `reseq lanes skip`: makes the head of a lane a dead letter, so that the lane continues.

use clap::Args;
use serde_json::Value;

use super::{client_args::ClientArgs, confirm::Confirmation, messages::withdrawn};
use client::paths::{object, path_of, text};

/// The arguments of `reseq lanes skip`.
#[derive(Debug, Clone, Args)]
pub struct SkipHeadArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Ordering key of the lane; required with ordering "key". "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Sequence of the expected head; refused if another message is the head
    #[arg(long)]
    sequence: u64,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Asks for confirmation, and skips the head.
pub async fn run(args: SkipHeadArgs) -> anyhow::Result<()> {
    let SkipHeadArgs { client, destination, key, sequence, confirmation } = args;
    let question = async {
        Ok(format!("Make message {sequence} of {destination} a dead letter? It is not delivered."))
    };
    confirmation.ask(question).await?;
    let request =
        object(&[("key", text(key.as_deref())), ("sequence", Some(Value::from(sequence)))]);
    let answer = client.post(&path_of(&destination, "skip-head"), &request).await?;
    client.print(&answer, |answer| withdrawn(answer))
}
