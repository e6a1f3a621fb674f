//! `reseq retry-head`: retries the head of a lane now.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::{
    common::{object, path_of, text_of},
    skip_head::HeadArgs,
};

/// The arguments of `reseq retry-head`.
#[derive(Debug, Clone, Args)]
pub struct RetryHeadArgs {
    #[command(flatten)]
    head: HeadArgs,
    /// Corrected body for a halted head: a file, or "-" for standard input
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Content type of the corrected body; unchanged if left out
    #[arg(long, requires = "body")]
    content_type: Option<String>,
    /// Retry every halted head of the destination
    #[arg(long, conflicts_with_all = ["key", "sequence", "body"])]
    all: bool,
}

/// Runs the command.
pub async fn run(args: RetryHeadArgs) -> anyhow::Result<()> {
    let body = match &args.body {
        Some(file) => Some(read(file).await?),
        None => None,
    };
    let HeadArgs { at, destination, key, sequence } = args.head;
    let request = object(&[
        ("key", key.map(Value::from)),
        ("sequence", sequence.map(Value::from)),
        ("body_base64", body.map(|bytes| json!(STANDARD.encode(bytes)))),
        ("content_type", args.content_type.map(Value::from)),
        ("all", args.all.then_some(json!(true))),
    ]);
    let answer = at.post(&path_of(&destination, "retry-head"), &request).await?;
    at.print(&answer, |answer| match answer["retried"].as_u64() {
        Some(retried) => format!("{retried} halted heads are being retried"),
        None => format!("{} is {} again", answer["sequence"], text_of(answer, "state")),
    });
    Ok(())
}

async fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        tokio::io::stdin().read_to_end(&mut bytes).await.context("reading standard input")?;
        return Ok(bytes);
    }
    tokio::fs::read(file).await.with_context(|| format!("reading {}", file.display()))
}
