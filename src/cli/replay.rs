//! `reseq replay`: enqueues delivered messages again.

use clap::Args;
use serde_json::{Value, json};

use super::common::{At, object, path_of};

/// The arguments of `reseq replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination whose log is replayed
    destination: String,
    /// Only this sequence and later
    #[arg(long, required_unless_present = "from_time", conflicts_with = "from_time")]
    from_sequence: Option<u64>,
    /// Only what was delivered at this time or later, for example 2026-11-21T10:00:00Z
    #[arg(long)]
    from_time: Option<String>,
    /// Only this sequence and earlier
    #[arg(long)]
    to_sequence: Option<u64>,
    /// Destination that gets the messages; the same one if left out
    #[arg(long)]
    to_destination: Option<String>,
    /// Key that makes it safe to run the same replay again
    #[arg(long)]
    idempotency_key: Option<String>,
    /// Only count
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub async fn run(args: ReplayArgs) -> anyhow::Result<()> {
    let request = object(&[
        ("from_sequence", args.from_sequence.map(Value::from)),
        ("from_time", args.from_time.map(Value::from)),
        ("to_sequence", args.to_sequence.map(Value::from)),
        ("to_destination", args.to_destination.map(Value::from)),
        ("idempotency_key", args.idempotency_key.map(Value::from)),
        ("dry_run", args.dry_run.then_some(json!(true))),
    ]);
    let answer = args.at.post(&path_of(&args.destination, "replay"), &request).await?;
    args.at.print(&answer, in_words);
    Ok(())
}

fn in_words(answer: &Value) -> String {
    let range = match (&answer["first_sequence"], &answer["last_sequence"]) {
        (Value::Null, _) => String::new(),
        (first, last) => format!(" (of {first} to {last})"),
    };
    let mut text = match answer["would_replay"].as_u64() {
        Some(count) => format!("{count} would be enqueued again{range}"),
        None => format!("{} were enqueued again{range}", answer["replayed"]),
    };
    for (field, what) in [
        ("duplicates", "had been replayed before"),
        ("refused", "can never be delivered there"),
        ("without_body", "have no body in the log (log_bodies)"),
    ] {
        if answer[field].as_u64().unwrap_or_default() > 0 {
            text += &format!("; {} {what}", answer[field]);
        }
    }
    text
}
