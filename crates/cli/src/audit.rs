//! `reseq audit`: shows the actions of operators.

use clap::Args;
use serde_json::Value;

use super::{client_args::ClientArgs, filters::Paging, output::text_of};
use client::paths::text;

const COLUMNS: [&str; 8] =
    ["time", "who", "from", "action", "destination", "target", "affected", "outcome"];

/// The arguments of `reseq audit`.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Only actions of this caller: the id or the name of its token
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, for example purge
    #[arg(long)]
    action: Option<String>,
    /// Only actions on this destination
    #[arg(long)]
    destination: Option<String>,
    /// Only this time and later, for example 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    from_time: Option<String>,
    /// Only this time and earlier
    #[arg(long, value_name = "TIME")]
    to_time: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists the actions, the newest first.
pub async fn run(args: AuditArgs) -> anyhow::Result<()> {
    let fields = [
        ("actor", text(args.actor.as_deref())),
        ("action", text(args.action.as_deref())),
        ("destination", text(args.destination.as_deref())),
        ("from_time", text(args.from_time.as_deref())),
        ("to_time", text(args.to_time.as_deref())),
    ];
    args.client.list(("/v1/audit", &fields), &args.paging, &COLUMNS, row).await
}

fn row(item: &Value) -> Vec<String> {
    let mut who = text_of(item, "actor");
    for field in ["actor_name", "certificate"] {
        let more = text_of(item, field);
        if !more.is_empty() {
            who += &format!(" ({more})");
        }
    }
    let mut outcome = text_of(item, "outcome");
    if item["dry_run"] == true {
        outcome += ", dry run";
    }
    vec![
        text_of(item, "occurred_at"),
        who,
        text_of(item, "address"),
        text_of(item, "action"),
        text_of(item, "destination"),
        text_of(item, "target"),
        text_of(item, "affected"),
        outcome,
    ]
}
