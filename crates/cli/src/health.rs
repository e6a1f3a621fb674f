//! `reseq health`: checks whether a process is ready.

use anyhow::Context;
use clap::Args;

use super::{client_args::ClientArgs, output::write_out};

/// The arguments of `reseq health`.
#[derive(Debug, Clone, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    client: ClientArgs,
}

/// Prints the answer of `/readyz`. An error if the process is not ready, or cannot be reached.
pub async fn run(args: HealthArgs) -> anyhow::Result<()> {
    let answer = args.client.service()?.find_text("/readyz").await?;
    write_out(answer.context("the service has no /readyz: is --url right?")?.trim_end())
}
