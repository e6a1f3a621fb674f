//! `reseq messages list|show|find|retry|run-now|cancel`.

use clap::{Args, Subcommand, builder::PossibleValuesParser};
use serde_json::Value;

use super::{
    bulk::{self, BulkArgs},
    client_args::ClientArgs,
    confirm::Confirmation,
    filters::{Paging, Range},
    output::{count_of, counted, error_of, human_age, in_lines, text_of},
    retry_head::{self, Corrected},
};
use client::{
    Answer,
    paths::{flag, object, path_of, percent_encoded, query, text},
};

const COLUMNS: [&str; 8] =
    ["sequence", "key", "state", "age", "attempts", "bytes", "due", "last error"];
/// The states of messages that can be listed.
const STATES: [&str; 6] = ["waiting", "processing", "delayed", "ready", "halted", "damaged"];

/// The arguments of `reseq messages`.
#[derive(Debug, Clone, Args)]
pub struct MessagesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List pending messages
    List(ListArgs),
    /// Show one message, or its outcome if it has left
    Show(ShowArgs),
    /// Find the messages with an id, in all destinations
    Find(FindArgs),
    /// Retry a message now that is halted or waits for a backoff. It must be the head of its lane
    Retry(RetryArgs),
    /// Make delayed messages due now: one message, or all
    RunNow(RunNowArgs),
    /// Cancel one pending message
    Cancel(CancelArgs),
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only this state
    #[arg(long, value_parser = PossibleValuesParser::new(STATES))]
    state: Option<String>,
    #[command(flatten)]
    range: Range,
    /// Only messages with this text in one of the errors
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Args)]
struct ShowArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    #[arg(required_unless_present = "id", conflicts_with = "id")]
    sequence: Option<u64>,
    /// Id of the message, in place of its sequence. The message must be among the last ids_max messages of the
    /// destination
    #[arg(long)]
    id: Option<String>,
}

#[derive(Debug, Clone, Args)]
struct FindArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Id of the messages
    id: String,
}

#[derive(Debug, Clone, Args)]
struct RetryArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    sequence: u64,
    #[command(flatten)]
    corrected: Corrected,
}

#[derive(Debug, Clone, Args)]
struct RunNowArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    sequence: Option<u64>,
    /// Every delayed message of the destination
    #[arg(long)]
    all: bool,
    /// With --all: only this ordering key; "" means no key
    #[arg(long, requires = "all")]
    key: Option<String>,
    /// With --all: only count the messages
    #[arg(long, requires = "all")]
    dry_run: bool,
    /// With --all: do not wait for the end of the operation; print the operation
    #[arg(long, requires = "all")]
    detach: bool,
}

#[derive(Debug, Clone, Args)]
struct CancelArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    #[arg(required_unless_present = "idempotency_key", conflicts_with = "idempotency_key")]
    sequence: Option<u64>,
    /// Idempotency key of the message, in place of its sequence
    #[arg(long)]
    idempotency_key: Option<String>,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: MessagesArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Show(args) => show(args).await,
        Command::Find(args) => find(args).await,
        Command::Retry(args) => retry(args).await,
        Command::RunNow(args) => run_now(args).await,
        Command::Cancel(args) => cancel(args).await,
    }
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    let mut fields = vec![
        ("key", text(args.key.as_deref())),
        ("state", text(args.state.as_deref())),
        ("error", text(args.error.as_deref())),
    ];
    fields.extend(args.range.fields());
    let path = path_of(&args.destination, "messages");
    args.client.list((&path, &fields), &args.paging, &COLUMNS, row).await
}

async fn show(args: ShowArgs) -> anyhow::Result<()> {
    let which = match &args.id {
        Some(id) => format!("by-id/{}", percent_encoded(id)),
        // The parser of the arguments requires the sequence or the id.
        None => args.sequence.unwrap_or_default().to_string(),
    };
    let path = path_of(&args.destination, &format!("messages/{which}"));
    let answer = args.client.get(&path).await?;
    args.client.print(&answer, |answer| in_lines(&answer.text))
}

async fn find(args: FindArgs) -> anyhow::Result<()> {
    let path = format!("/v1/messages/by-id/{}", percent_encoded(&args.id));
    let answer = args.client.get(&path).await?;
    args.client.print(&answer, |answer| {
        let found = answer["items"].as_array().into_iter().flatten();
        let line = |one: &Value| {
            let (message, destination) = (&one["message"], one["destination"].as_str());
            let state = message["state"].as_str().unwrap_or_default();
            format!("{} {} {state}", destination.unwrap_or_default(), message["sequence"])
        };
        let lines: Vec<String> = found.map(line).collect();
        if lines.is_empty() {
            "no destination has a message with this id".to_owned()
        } else {
            lines.join("\n")
        }
    })
}

async fn retry(args: RetryArgs) -> anyhow::Result<()> {
    let RetryArgs { client, destination, sequence, corrected } = args;
    let definition = client.get(&path_of(&destination, "")).await?;
    // With ordering by key, the key names the lane: `""` stands for the messages without a key.
    let key = match definition["ordering"] == "key" {
        true => Some(client.get(&path_of(&destination, &format!("messages/{sequence}"))).await?),
        false => None,
    };
    let key = key.as_ref().map(|message| message["key"].as_str().unwrap_or_default());
    retry_head::retry(&client, &destination, key, Some(sequence), corrected).await
}

async fn run_now(args: RunNowArgs) -> anyhow::Result<()> {
    let RunNowArgs { client, destination, sequence, key, dry_run, detach, .. } = args;
    let Some(sequence) = sequence else {
        let request = object(&[("key", text(key.as_deref())), ("dry_run", flag(dry_run))]);
        let words = |operation: &Answer| {
            let matched = counted(count_of(operation, "matched"), "delayed message");
            match dry_run {
                true => format!("{matched} would be due now"),
                false => format!("{} of {matched} due now", count_of(operation, "affected")),
            }
        };
        let bulk = BulkArgs { detach };
        return bulk::run(&client, &bulk, &destination, "run-now", &request, words).await;
    };
    let path = path_of(&destination, &format!("messages/{sequence}/run-now"));
    let answer = client.post(&path, &object(&[])).await?;
    client.print(&answer, |answer| {
        format!("{} is {} now", answer["sequence"], text_of(answer, "state"))
    })
}

async fn cancel(args: CancelArgs) -> anyhow::Result<()> {
    let CancelArgs { client, destination, sequence, idempotency_key, confirmation } = args;
    let (which, rest) = match (sequence, idempotency_key.as_deref()) {
        (None, Some(key)) => {
            let query = query(&[("idempotency_key", text(Some(key)))]);
            (format!("the message with the idempotency key {key:?}"), format!("messages{query}"))
        }
        (sequence, _) => {
            // The parser of the arguments requires the sequence or the key.
            let sequence = sequence.unwrap_or_default();
            (format!("message {sequence}"), format!("messages/{sequence}"))
        }
    };
    let question = async { Ok(format!("Cancel {which} of {destination}? It is not delivered.")) };
    confirmation.ask(question).await?;
    let answer = client.delete(&path_of(&destination, &rest)).await?;
    client.print(&answer, |answer| withdrawn(answer))
}

/// The result of a withdrawal, as text.
pub fn withdrawn(answer: &Value) -> String {
    let (sequence, state) = (&answer["sequence"], text_of(answer, "state"));
    match answer["detail"].as_str() {
        Some(detail) => format!("{sequence} is {state}: {detail}"),
        None => format!("{sequence} is {state}"),
    }
}

fn row(item: &Value) -> Vec<String> {
    let mut state = text_of(item, "state");
    if item["withdrawing"] == true {
        state += ", to leave";
    }
    vec![
        text_of(item, "sequence"),
        text_of(item, "key"),
        state,
        human_age(count_of(item, "age_ms")),
        text_of(item, "attempts"),
        text_of(item, "bytes"),
        text_of(item, "due_at"),
        error_of(item),
    ]
}
