//! `reseq destinations versions` and `rollback`.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::{
    apply::preview,
    client_args::ClientArgs,
    destinations::NOUN,
    output::{Output, list, text_of, write_out},
};
use client::paths::path_of;

const COLUMNS: [&str; 4] = ["version", "written_at", "by", "changed"];

/// The arguments of `reseq destinations versions`.
#[derive(Debug, Clone, Args)]
pub struct VersionsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Print the definition of this version, as a file for apply
    #[arg(long, value_name = "VERSION")]
    show: Option<u64>,
}

/// The arguments of `reseq destinations rollback`.
#[derive(Debug, Clone, Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// The version to restore (see reseq destinations versions). Default: the version before the current one
    #[arg(long, value_name = "VERSION")]
    to: Option<u64>,
    /// Change nothing: print what would change
    #[arg(long)]
    dry_run: bool,
}

/// Lists the versions, or prints one of them.
pub async fn versions(args: VersionsArgs) -> anyhow::Result<()> {
    let VersionsArgs { client, destination, show } = args;
    let answer = client.get(&path_of(&destination, "versions")).await?;
    match show {
        None => client.print(&answer, |answer| list(answer, &COLUMNS, row)),
        Some(version) => {
            let definition = &find(&answer, &destination, Some(version))?["definition"];
            write_out(&match client.output {
                Output::Table | Output::Json => serde_json::to_string_pretty(definition)?,
                output => output.render(&definition.to_string())?,
            })
        }
    }
}

/// Restores an earlier version of a definition.
pub async fn rollback(args: RollbackArgs) -> anyhow::Result<()> {
    let RollbackArgs { client, destination, to, dry_run } = args;
    let before = client.get(&path_of(&destination, "versions")).await?;
    let found = find(&before, &destination, to)?;
    if dry_run {
        return preview(&client, &NOUN, &destination, &found["definition"]).await;
    }
    // Name the version, so that a repeated command does not switch back.
    let body = json!({"to": found["version"]});
    let answer = client.post(&path_of(&destination, "rollback"), &body).await?;
    client.print(&answer, |answer| {
        let (of, version) = (text_of(found, "version"), text_of(answer, "version"));
        if answer["version"] == before["items"][0]["version"] {
            return format!("{destination} is unchanged: version {of} has the same fields; secrets are not rolled back");
        }
        format!("{destination} is defined as in version {of}: now version {version}")
    })
}

/// The version with this number. Without a number: the version before the current one.
fn find<'a>(answer: &'a Value, name: &str, version: Option<u64>) -> anyhow::Result<&'a Value> {
    let Some(version) = version else {
        return answer["items"].get(1).with_context(|| format!("{name} has no earlier version"));
    };
    let mut all = answer["items"].as_array().into_iter().flatten();
    match all.find(|one| one["version"] == version) {
        Some(one) => Ok(one),
        None => bail!(
            "{name} has no version {version}, or it is not kept any more: see reseq destinations versions {name}"
        ),
    }
}

/// The caller that wrote or removed a definition.
pub fn author_of(item: &Value) -> String {
    text_of(item, if item["actor_name"].is_null() { "actor" } else { "actor_name" })
}

fn row(item: &Value) -> Vec<String> {
    let changes = item["changes"].as_array().into_iter().flatten();
    let changed: Vec<String> = changes.map(|change| text_of(change, "field")).collect();
    let changed = match (changed.join(", "), item["changes"].is_null()) {
        (none, false) if none.is_empty() => "secrets".to_owned(),
        (fields, _) => fields,
    };
    vec![text_of(item, "version"), text_of(item, "written_at"), author_of(item), changed]
}
