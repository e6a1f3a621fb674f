//! `reseq skip-head`: makes the head of a lane a dead letter, so that the lane continues.

use clap::Args;
use serde_json::Value;

use super::common::{At, object, path_of, text_of};

/// The arguments of `reseq skip-head`.
#[derive(Debug, Clone, Args)]
pub struct SkipHeadArgs {
    #[command(flatten)]
    head: HeadArgs,
}

/// Selects the head of a lane.
#[derive(Debug, Clone, Args)]
pub struct HeadArgs {
    #[command(flatten)]
    pub at: At,
    /// Name of the destination
    pub destination: String,
    /// Ordering key of the lane; required with ordering "key". "" means no key
    #[arg(long)]
    pub key: Option<String>,
    /// Sequence of the head; refused if the head has changed. Required with ordering "none"
    #[arg(long)]
    pub sequence: Option<u64>,
}

/// Runs the command.
pub async fn run(args: SkipHeadArgs) -> anyhow::Result<()> {
    let HeadArgs { at, destination, key, sequence } = args.head;
    let request = object(&[("key", key.map(Value::from)), ("sequence", sequence.map(Value::from))]);
    let answer = at.post(&path_of(&destination, "skip-head"), &request).await?;
    at.print(&answer, withdrawn);
    Ok(())
}

/// The result of a withdrawal, as text.
pub fn withdrawn(answer: &Value) -> String {
    let (sequence, state) = (&answer["sequence"], text_of(answer, "state"));
    match answer["detail"].as_str() {
        Some(detail) => format!("{sequence} is {state}: {detail}"),
        None => format!("{sequence} is {state}"),
    }
}
