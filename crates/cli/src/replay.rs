//! `reseq replay`: enqueues delivered messages again.

use clap::{ArgGroup, Args};

use super::{
    bulk::{self, BulkArgs, RateArgs},
    client_args::ClientArgs,
    filters::Range,
    output::count_of,
};
use client::{
    Answer,
    paths::{flag, object, text},
};

/// The arguments of `reseq replay`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("from").args(["from_sequence", "from_time"]).required(true).multiple(true))]
pub struct ReplayArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination whose log is replayed
    destination: String,
    #[command(flatten)]
    range: Range,
    /// Destination that gets the messages; the same destination if left out
    #[arg(long, value_name = "NAME")]
    to_destination: Option<String>,
    /// Key that makes it safe to run the same replay again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only count the messages
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs the command.
pub async fn run(args: ReplayArgs) -> anyhow::Result<()> {
    let ReplayArgs { client, destination, range, dry_run, rate, bulk, .. } = args;
    let mut fields = vec![
        ("to_destination", text(args.to_destination.as_deref())),
        ("idempotency_key", text(args.idempotency_key.as_deref())),
        ("dry_run", flag(dry_run)),
    ];
    fields.extend(range.fields());
    let mut request = object(&fields);
    rate.add_to(&mut request);
    bulk::run(&client, &bulk, &destination, "replay", &request, words).await
}

fn words(replayed: &Answer) -> String {
    let range = match (&replayed["first_sequence"], &replayed["last_sequence"]) {
        (first, last) if first.is_u64() && last.is_u64() => format!(" (of {first} to {last})"),
        _ => String::new(),
    };
    let mut text = match replayed["dry_run"] == true {
        true => format!("{} would be enqueued again{range}", count_of(replayed, "matched")),
        false => format!("{} were enqueued again{range}", count_of(replayed, "affected")),
    };
    for (field, what) in [
        ("duplicates", "had been replayed before"),
        ("failed", "can never be delivered there"),
        ("without_body", "have no body in the log (log_bodies)"),
    ] {
        match count_of(replayed, field) {
            0 => {}
            count => text += &format!("; {count} {what}"),
        }
    }
    text
}
