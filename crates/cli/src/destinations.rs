//! `reseq destinations list|show|apply|diff|set|pause|resume|purge|delete`, and the commands of `versions` and
//! `removed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    apply::{ADDED, ApplyArgs, Noun, apply, preview},
    client_args::ClientArgs,
    confirm::Confirmation,
    filters::Paging,
    output::{self, count_of, counted, in_lines, text_of},
    pause::{self, PauseArgs},
    purge::{self, PurgeArgs},
    usage::WrongUsage,
    versions::{RollbackArgs, VersionsArgs, author_of, rollback, versions},
};
use client::{
    Call,
    paths::{flag, path_of, query},
    problem_of,
};
use domain::merge_patch::merge;

const COLUMNS: [&str; 5] = ["destination", "ordering", "transform", "delivery", "version"];

/// Files with destinations.
pub const NOUN: Noun = Noun {
    table: "destination",
    path_of: |name| path_of(name, ""),
    changing: "version",
    has_diff: true,
};

/// The arguments of `reseq destinations`.
#[derive(Debug, Clone, Args)]
pub struct DestinationsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List destinations
    List(ListArgs),
    /// Show the definition of a destination
    Show(ShowArgs),
    /// Create or change the destinations that a file defines
    Apply(ApplyArgs),
    /// Show what apply would change: the same as apply --dry-run
    Diff(DiffArgs),
    /// Change single fields of a destination
    Set(SetArgs),
    /// Pause ingest, processing or delivery, or all of them
    Pause(PauseArgs),
    /// Resume ingest, processing and delivery
    Resume(PauseArgs),
    /// Cancel all pending messages of a destination or of one ordering key
    Purge(PurgeArgs),
    /// Show the last versions of a definition: who wrote each, when, and what changed
    Versions(VersionsArgs),
    /// Restore an earlier version of a definition
    Rollback(RollbackArgs),
    /// Delete a destination; the service keeps its definition for 7 days
    Delete(DeleteArgs),
    /// List the definitions of deleted destinations, which the service keeps for 7 days
    Removed(RemovedArgs),
    /// Create a deleted destination again, without its messages
    Restore(ShowArgs),
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Args)]
struct RemovedArgs {
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Clone, Args)]
struct ShowArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
}

#[derive(Debug, Clone, Args)]
struct DiffArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// TOML or JSON file with one definition or several; "-" is standard input
    file: PathBuf,
}

#[derive(Debug, Clone, Args)]
struct SetArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Field and value, such as delivery.lanes_max=8. The value is JSON or a text; null restores the default
    #[arg(required = true, value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Change nothing: print what would change
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Args)]
struct DeleteArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Delete its pending messages and dead letters too
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: DestinationsArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Show(args) => show(args).await,
        Command::Apply(args) => apply(args, &NOUN).await,
        Command::Diff(DiffArgs { client, file }) => {
            apply(ApplyArgs { client, file, dry_run: true }, &NOUN).await
        }
        Command::Set(args) => set(args).await,
        Command::Pause(args) => pause::pause(args).await,
        Command::Resume(args) => pause::resume(args).await,
        Command::Purge(args) => purge::run(args).await,
        Command::Versions(args) => versions(args).await,
        Command::Rollback(args) => rollback(args).await,
        Command::Delete(args) => delete(args).await,
        Command::Removed(RemovedArgs { client }) => {
            let answer = client.get("/v1/removed-destinations").await?;
            let columns = ["destination", "version", "removed_at", "by"];
            client.print(&answer, |answer| output::list(answer, &columns, row_of_removed))
        }
        Command::Restore(ShowArgs { client, destination }) => {
            let answer = client.post(&path_of(&destination, "restore"), &json!({})).await?;
            client.print(&answer, |answer| {
                format!("{destination} is defined again: version {}", text_of(answer, "version"))
            })
        }
    }
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    args.client.list(("/v1/destinations", &[]), &args.paging, &COLUMNS, row).await
}

async fn show(args: ShowArgs) -> anyhow::Result<()> {
    let answer = args.client.get(&path_of(&args.destination, "")).await?;
    args.client.print(&answer, |answer| in_lines(&answer.text))
}

async fn set(args: SetArgs) -> anyhow::Result<()> {
    let SetArgs { client, destination, fields, dry_run } = args;
    let patch = patch_of(&fields)?;
    let path = path_of(&destination, "");
    if dry_run {
        let mut definition = (*client.get(&path).await?).clone();
        if let Some(fields) = definition.as_object_mut() {
            ADDED.iter().for_each(|field| drop(fields.remove(*field)));
        }
        merge(&mut definition, patch);
        return preview(&client, &NOUN, &destination, &definition).await;
    }
    let answer = client.call(Call::patch(&path, &patch)).await?;
    client.print(&answer, |answer| {
        format!("{destination} is changed: version {}", text_of(answer, "version"))
    })
}

/// A merge patch of `FIELD=VALUE` pairs. Dots in the name of a field separate the levels of objects.
fn patch_of(fields: &[String]) -> Result<Value, WrongUsage> {
    let mut patch = Value::Null;
    for field in fields {
        let wrong = || WrongUsage(format!("{field}: write FIELD=VALUE, each field once"));
        let (path, value) = field.split_once('=').ok_or_else(wrong)?;
        let mut at = &mut patch;
        for part in path.split('.') {
            if part.is_empty() || !(at.is_null() || at.is_object()) {
                return Err(wrong());
            }
            at = &mut at[part];
        }
        if !at.is_null() {
            return Err(wrong());
        }
        *at = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    }
    Ok(patch)
}

async fn delete(args: DeleteArgs) -> anyhow::Result<()> {
    let DeleteArgs { client, destination, force, confirmation } = args;
    confirmation.ask(question(&client, &destination)).await?;
    let path = format!("{}{}", path_of(&destination, ""), query(&[("force", flag(force))]));
    let answer = client.call(Call::delete(&path).long()).await?;
    client.print(&answer, |answer| {
        let removed = counted(count_of(answer, "removed_messages"), "pending message");
        format!("{} was deleted, with {removed}", text_of(answer, "removed"))
    })
}

async fn question(client: &ClientArgs, destination: &str) -> anyhow::Result<String> {
    let stats = client.service()?.call(Call::get(&path_of(destination, "stats"))).await;
    let holds = match &stats {
        Ok(stats) => format!(
            "has {} and {}",
            counted(count_of(stats, "pending"), "pending message"),
            counted(count_of(stats, "dead_letters"), "dead letter"),
        ),
        // A destination with damaged data can still be deleted.
        Err(error) if problem_of(error).is_some_and(|problem| problem.status == 500) => {
            "is damaged: its messages cannot be counted".to_owned()
        }
        Err(_) => {
            client.print_problem(&stats)?;
            return stats.map(|_| String::new());
        }
    };
    Ok(format!("{destination} {holds}. Delete the destination and all that it holds?"))
}

/// The URL of the receiver; without one, the kind of delivery.
fn receiver_of(destination: &Value) -> String {
    match &destination["url"] {
        Value::Null => text_of(&destination["delivery"], "kind"),
        _ => text_of(destination, "url"),
    }
}

fn row_of_removed(item: &Value) -> Vec<String> {
    let fields = ["name", "version", "removed_at"].map(|field| text_of(item, field));
    [fields.as_slice(), &[author_of(item)]].concat()
}

fn row(destination: &Value) -> Vec<String> {
    vec![
        text_of(destination, "name"),
        text_of(destination, "ordering"),
        text_of(&destination["transform"], "kind"),
        receiver_of(destination),
        text_of(destination, "version"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::patch_of;

    #[test]
    fn pairs_become_a_merge_patch_of_nested_fields() {
        let of = |pairs: &[&str]| {
            patch_of(&pairs.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        let patch = of(&["a.b=1", "a.c=x=y", "url=http://h/", "d=null", "e=[\"f\"]"]).unwrap();
        let expected =
            json!({"a": {"b": 1, "c": "x=y"}, "url": "http://h/", "d": null, "e": ["f"]});
        assert_eq!(patch, expected);
        for wrong in [&["a"][..], &["=1"], &["a=1", "a.b=2"], &["a=1", "a=2"], &["a..b=1"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
