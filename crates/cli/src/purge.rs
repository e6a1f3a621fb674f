//! `reseq destinations purge`: cancels all pending messages.

use clap::Args;
use serde_json::Value;

use super::{
    bulk::{self, BulkArgs},
    client_args::ClientArgs,
    confirm::Confirmation,
    output::{count_of, counted},
};
use client::{
    Answer,
    paths::{flag, object, path_of, text},
};

/// The arguments of `reseq destinations purge`.
#[derive(Debug, Clone, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only count the messages
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Counts the messages, asks for confirmation, and cancels them.
pub async fn run(args: PurgeArgs) -> anyhow::Result<()> {
    let PurgeArgs { client, destination, key, dry_run, bulk, confirmation } = args;
    let request = |dry_run| object(&[("key", text(key.as_deref())), ("dry_run", flag(dry_run))]);
    if dry_run {
        let request = request(true);
        return bulk::run(&client, &bulk, &destination, "purge", &request, dry_words).await;
    }
    let question = async {
        let counts = client.post(&path_of(&destination, "purge"), &request(true)).await?;
        let messages = counted(count_of(&counts, "matched"), "pending message");
        let these = if key.is_some() { " with this key" } else { "" };
        let states = states(&counts);
        Ok(format!("This cancels {messages} of {destination}{these}{states}. Continue?"))
    };
    confirmation.ask(question).await?;
    bulk::run(&client, &bulk, &destination, "purge", &request(false), words).await
}

fn dry_words(counts: &Answer) -> String {
    match count_of(counts, "matched") {
        0 => "none are pending".to_owned(),
        matched => format!("{matched} would be cancelled{}", states(counts)),
    }
}

fn words(purged: &Answer) -> String {
    let mut text = format!("{} were cancelled", count_of(purged, "affected"));
    for (field, what) in [
        (
            "withdrawing",
            "of them are being processed or delivered and leave when that attempt has failed",
        ),
        ("failed", "stay, because their lanes are damaged: see reseq repair"),
    ] {
        match count_of(purged, field) {
            0 => {}
            count => text += &format!("; {count} {what}"),
        }
    }
    text
}

/// The counts by state, in parentheses.
fn states(counts: &Value) -> String {
    let states = counts["by_state"].as_object().into_iter().flatten();
    let states = states.filter(|(_, count)| **count != 0);
    match states.map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!(" ({some})"),
    }
}
