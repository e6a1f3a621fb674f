//! `reseq destinations pause` and `resume`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client_args::ClientArgs;
use client::paths::{object, path_of};

/// The parts of a destination that can be paused.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum What {
    /// Sending messages to the receiver
    Delivery,
    /// Accepting messages of producers
    Ingest,
    /// Handing messages out to processors and workers
    Processing,
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            What::Delivery => "delivery",
            What::Ingest => "ingest",
            What::Processing => "processing",
        }
    }
}

/// The arguments of `reseq destinations pause` and `resume`.
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// The part to pause or resume; all parts if left out
    what: Option<What>,
}

/// Runs `reseq destinations pause`.
pub async fn pause(args: PauseArgs) -> anyhow::Result<()> {
    set_paused(args, "pause").await
}

/// Runs `reseq destinations resume`.
pub async fn resume(args: PauseArgs) -> anyhow::Result<()> {
    set_paused(args, "resume").await
}

async fn set_paused(args: PauseArgs, verb: &str) -> anyhow::Result<()> {
    let PauseArgs { client, destination, what } = args;
    let body = object(&[("what", what.map(|what| json!(what.as_str())))]);
    let answer = client.post(&path_of(&destination, verb), &body).await?;
    client.print(&answer, |answer| in_words(&destination, answer))
}

fn in_words(destination: &str, answer: &Value) -> String {
    let is = |what: &str| match answer["paused"][what].as_bool() {
        Some(true) => "paused",
        _ => "running",
    };
    let [ingest, processing, delivery] = ["ingest", "processing", "delivery"].map(is);
    format!("{destination}: ingest is {ingest}, processing is {processing}, delivery is {delivery}")
}
