//! `reseq pause` and `reseq resume`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    client_args::ClientArgs,
    paths::{object, path_of},
};

/// What can be paused.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum What {
    /// Sending messages to the receiver
    Delivery,
    /// Accepting messages of producers
    Ingest,
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            What::Delivery => "delivery",
            What::Ingest => "ingest",
        }
    }
}

/// The arguments of `reseq pause`.
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// What to pause
    what: What,
}

/// The arguments of `reseq resume`.
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// What to resume; both if left out
    what: Option<What>,
}

/// Runs `reseq pause`.
pub async fn pause(args: PauseArgs) -> anyhow::Result<()> {
    let PauseArgs { client, destination, what } = args;
    let body = json!({"what": what.as_str()});
    let answer = client.post(&path_of(&destination, "pause"), &body).await?;
    client.print(&answer, |answer| in_words(&destination, answer))
}

/// Runs `reseq resume`.
pub async fn resume(args: ResumeArgs) -> anyhow::Result<()> {
    let ResumeArgs { client, destination, what } = args;
    let body = object(&[("what", what.map(|what| json!(what.as_str())))]);
    let answer = client.post(&path_of(&destination, "resume"), &body).await?;
    client.print(&answer, |answer| in_words(&destination, answer))
}

fn in_words(destination: &str, answer: &Value) -> String {
    let is = |what: &str| match answer["paused"][what].as_bool() {
        Some(true) => "paused",
        _ => "running",
    };
    format!("{destination}: ingest is {}, delivery is {}", is("ingest"), is("delivery"))
}
