//! `reseq log`: shows the outcome of the last messages.

use clap::{Args, builder::PossibleValuesParser};
use serde_json::Value;

use super::{
    client_args::ClientArgs,
    filters::{Paging, Range},
    output::{count_of, human_age, plain, text_of},
    paths::{path_of, text},
};

const COLUMNS: [&str; 7] = ["sequence", "key", "outcome", "settled", "attempts", "took", "id"];
/// The states in which messages leave.
const STATES: [&str; 4] = ["delivered", "dropped", "dead_lettered", "cancelled"];

/// The arguments of `reseq log`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only those that left in this state
    #[arg(long, value_parser = PossibleValuesParser::new(STATES))]
    state: Option<String>,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, newest first.
pub async fn run(args: LogArgs) -> anyhow::Result<()> {
    let mut fields =
        vec![("key", text(args.key.as_deref())), ("state", text(args.state.as_deref()))];
    fields.extend(args.range.fields());
    let path = path_of(&args.destination, "log");
    args.client.list((&path, &fields), &args.paging, &COLUMNS, row).await
}

fn row(item: &Value) -> Vec<String> {
    let mut state = text_of(item, "state");
    if item["dead_letter"] == true {
        state += ", a dead letter";
    }
    if let Some(damaged) = item["damaged"].as_str() {
        state = format!("damaged: {}", plain(damaged));
    }
    vec![
        text_of(item, "sequence"),
        text_of(item, "key"),
        state,
        text_of(item, "settled_at"),
        text_of(item, "attempts"),
        human_age(count_of(&item["latency"], "total_ms")),
        text_of(item, "id"),
    ]
}
