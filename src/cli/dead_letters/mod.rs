//! `reseq dead-letters list|show|redrive|discard`.

mod list;
mod selection;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    common::{At, path_of},
    purge::is_sure,
};
use selection::Which;

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
    /// Store dead letters again, at the end of their lanes
    Redrive(Many),
    /// Delete dead letters
    Discard(DiscardArgs),
}

#[derive(Debug, Clone, Args)]
struct Many {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    #[command(flatten)]
    which: Which,
    /// Only count
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Args)]
struct DiscardArgs {
    #[command(flatten)]
    many: Many,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub async fn run(args: DeadLettersArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list::list(args).await,
        Command::Show(args) => list::show(args).await,
        Command::Redrive(args) => redrive(args).await,
        Command::Discard(args) => discard(args).await,
    }
}

async fn redrive(args: Many) -> anyhow::Result<()> {
    let path = path_of(&args.destination, "dead-letters/redrive");
    let answer = args.at.post(&path, &args.which.request(args.dry_run)?).await?;
    args.at.print(&answer, |answer| match answer["would_redrive"].as_u64() {
        Some(count) => format!("{count} would be enqueued again"),
        None => {
            let mut text = format!("{} were enqueued again", answer["redriven"]);
            for (field, what) in
                [("gone", "are no longer dead letters"), ("refused", "can never be delivered")]
            {
                if answer[field] != 0 {
                    text += &format!("; {} {what}", answer[field]);
                }
            }
            text
        }
    });
    Ok(())
}

async fn discard(args: DiscardArgs) -> anyhow::Result<()> {
    let DiscardArgs { many: args, yes } = args;
    let path = path_of(&args.destination, "dead-letters/discard");
    if !args.dry_run && !yes {
        let counts = args.at.post(&path, &args.which.request(true)?).await?;
        let count = &counts["would_discard"];
        anyhow::ensure!(
            is_sure(&format!(
                "This deletes {count} dead letters of {} permanently.",
                args.destination
            ))?,
            "nothing was discarded"
        );
    }
    let answer = args.at.post(&path, &args.which.request(args.dry_run)?).await?;
    args.at.print(&answer, |answer| match answer["would_discard"].as_u64() {
        Some(count) => format!("{count} would be discarded"),
        None => format!("{} were discarded", answer.get("discarded").unwrap_or(&json!(0))),
    });
    Ok(())
}
