//! `reseq dead-letters list|show|redrive|discard`.

use client::{Answer, paths::path_of};
mod list;
mod selection;

use clap::{Args, Subcommand};

use super::{
    bulk::{self, BulkArgs, RateArgs},
    client_args::ClientArgs,
    confirm::Confirmation,
    output::{count_of, counted},
};
use selection::Selection;

/// The arguments of `reseq dead-letters`.
#[derive(Debug, Clone, Args)]
pub struct DeadLettersArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// List dead letters
    List(list::ListArgs),
    /// Show one dead letter with its body and errors
    Show(list::ShowArgs),
    /// Enqueue dead letters again, at the end of their lanes
    Redrive {
        #[command(flatten)]
        many: ManyArgs,
        #[command(flatten)]
        rate: RateArgs,
    },
    /// Delete dead letters
    Discard(DiscardArgs),
}

#[derive(Debug, Clone, Args)]
struct ManyArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Name of the destination
    destination: String,
    #[command(flatten)]
    selection: Selection,
    /// Only count the dead letters
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bulk: BulkArgs,
}

#[derive(Debug, Clone, Args)]
struct DiscardArgs {
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Runs the command.
pub async fn run(args: DeadLettersArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list::list(args).await,
        Command::Show(args) => list::show(args).await,
        Command::Redrive { many, rate } => redrive(many, rate).await,
        Command::Discard(args) => discard(args).await,
    }
}

async fn redrive(args: ManyArgs, rate: RateArgs) -> anyhow::Result<()> {
    let ManyArgs { client, destination, selection, dry_run, bulk } = args;
    let (route, mut request) = ("dead-letters/redrive", selection.request(dry_run)?);
    rate.add_to(&mut request);
    bulk::run(&client, &bulk, &destination, route, &request, |redriven| {
        words(redriven, "enqueued again")
    })
    .await
}

async fn discard(args: DiscardArgs) -> anyhow::Result<()> {
    let DiscardArgs { many, confirmation } = args;
    let ManyArgs { client, destination, selection, dry_run, bulk } = many;
    let (route, request) = ("dead-letters/discard", selection.request(dry_run)?);
    if !dry_run {
        let question = async {
            let counting = selection.request(true)?;
            let counts = client.post(&path_of(&destination, route), &counting).await?;
            let letters = counted(count_of(&counts, "matched"), "dead letter");
            Ok(format!("This deletes {letters} of {destination} permanently. Continue?"))
        };
        confirmation.ask(question).await?;
    }
    bulk::run(&client, &bulk, &destination, route, &request, |discarded| {
        words(discarded, "discarded")
    })
    .await
}

fn words(operation: &Answer, done: &str) -> String {
    let mut text = match operation["dry_run"] == true {
        true => format!("{} would be {done}", count_of(operation, "matched")),
        false => format!("{} were {done}", count_of(operation, "affected")),
    };
    for (field, what) in
        [("gone", "are no longer dead letters"), ("failed", "can never be delivered")]
    {
        match count_of(operation, field) {
            0 => {}
            count => text += &format!("; {count} {what}"),
        }
    }
    text
}
