//! `reseq lanes retry` and `reseq messages retry`: retries the head of a lane now, or all heads that are halted or in backoff.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use serde_json::{Value, json};

use super::{
    bulk::{self, BulkArgs},
    client_args::ClientArgs,
    files::read,
    output::{count_of, counted, text_of},
};
use client::{
    Answer,
    paths::{flag, object, path_of, text},
};

/// The arguments of `reseq lanes retry`.
#[derive(Debug, Clone, Args)]
pub struct RetryHeadArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Ordering key of the lane; required with ordering "key". "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Sequence of the expected head; refused if another message is the head. Required with ordering "none"
    #[arg(long)]
    sequence: Option<u64>,
    #[command(flatten)]
    corrected: Corrected,
    /// Retry every head of the destination that is halted or waits for a backoff
    #[arg(long, conflicts_with_all = ["key", "sequence", "body"])]
    all: bool,
    /// With --all: do not wait for the end of the operation; print the operation
    #[arg(long, requires = "all")]
    detach: bool,
    /// With --all: the most heads per second; as fast as possible if left out
    #[arg(long, value_name = "PER_SECOND", requires = "all", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
}

/// Runs the command.
pub async fn run(args: RetryHeadArgs) -> anyhow::Result<()> {
    if args.all {
        let RetryHeadArgs { client, destination, detach, rate, .. } = args;
        let rate = ("rate_per_second", rate.map(Value::from));
        let (bulk, request) = (BulkArgs { detach }, object(&[("all", flag(true)), rate]));
        return bulk::run(&client, &bulk, &destination, "retry-head", &request, all_words).await;
    }
    let RetryHeadArgs { client, destination, key, sequence, corrected, .. } = args;
    retry(&client, &destination, key.as_deref(), sequence, corrected).await
}

/// A corrected body.
#[derive(Debug, Clone, Args)]
pub struct Corrected {
    /// Corrected body for a halted message: a file, or "-" for standard input
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Content type of the corrected body; unchanged if left out
    #[arg(long, requires = "body")]
    content_type: Option<String>,
}

/// Retries one head.
pub async fn retry(
    client: &ClientArgs,
    destination: &str,
    key: Option<&str>,
    sequence: Option<u64>,
    corrected: Corrected,
) -> anyhow::Result<()> {
    let Corrected { body, content_type } = corrected;
    let body = match &body {
        Some(file) => Some(read(file).await?),
        None => None,
    };
    let request = object(&[
        ("key", text(key)),
        ("sequence", sequence.map(Value::from)),
        ("body_base64", body.map(|bytes| json!(STANDARD.encode(bytes)))),
        ("content_type", text(content_type.as_deref())),
    ]);
    let answer = client.post(&path_of(destination, "retry-head"), &request).await?;
    client.print(&answer, |answer| {
        format!("{} is {} again", answer["sequence"], text_of(answer, "state"))
    })
}

fn all_words(operation: &Answer) -> String {
    let retried = counted(count_of(operation, "affected"), "head");
    let text = format!("retrying {retried}");
    match count_of(operation, "failed") {
        0 => text,
        failed => format!("{text}; {failed} were not heads, or had left"),
    }
}
