//! `reseq cancel`: cancels one pending message.

use clap::Args;

use super::{
    common::{At, path_of, query},
    skip_head::withdrawn,
};

/// The arguments of `reseq cancel`.
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    #[arg(required_unless_present = "idempotency_key", conflicts_with = "idempotency_key")]
    sequence: Option<u64>,
    /// Idempotency key of the message, in place of its sequence
    #[arg(long)]
    idempotency_key: Option<String>,
}

/// Runs the command.
pub async fn run(args: CancelArgs) -> anyhow::Result<()> {
    let rest = match args.sequence {
        Some(sequence) => format!("messages/{sequence}"),
        None => format!("messages{}", query(&[("idempotency_key", args.idempotency_key)])),
    };
    let answer = args.at.delete(&path_of(&args.destination, &rest)).await?;
    args.at.print(&answer, withdrawn);
    Ok(())
}
