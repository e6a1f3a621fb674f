//! `reseq purge`: cancels all pending messages.

use std::io::{IsTerminal, Write};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::common::{At, object, path_of};

/// The arguments of `reseq purge`.
#[derive(Debug, Clone, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Only this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Only count
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Counts them, asks for confirmation, and cancels them.
pub async fn run(args: PurgeArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, "purge");
    let request = |dry_run: bool| {
        let key = args.key.as_deref().map(Value::from);
        object(&[("key", key), ("dry_run", dry_run.then_some(json!(true)))])
    };
    if args.dry_run {
        let counts = args.at.post(&path, &request(true)).await?;
        args.at.print(&counts, |counts| match states(&counts["by_state"]) {
            none if none.is_empty() => "none are pending".to_owned(),
            some => format!("{} would be cancelled ({some})", counts["pending"]),
        });
        return Ok(());
    }
    if !args.yes {
        let counts = args.at.post(&path, &request(true)).await?;
        let question = format!(
            "{} messages of {} are pending ({}). Cancel them all?",
            counts["pending"],
            args.destination,
            states(&counts["by_state"]),
        );
        if !is_sure(&question)? {
            bail!("nothing was cancelled");
        }
    }
    let answer = args.at.post(&path, &request(false)).await?;
    args.at.print(&answer, |answer| {
        let (cancelled, withdrawing) = (&answer["cancelled"], &answer["withdrawing"]);
        match withdrawing.as_u64() {
            Some(0) | None => format!("{cancelled} were cancelled"),
            Some(withdrawing) => format!(
                "{cancelled} were cancelled; {withdrawing} are being processed or delivered and leave \
                 when that attempt has failed"
            ),
        }
    });
    Ok(())
}

fn states(by_state: &Value) -> String {
    let counts = by_state.as_object().into_iter().flatten().filter(|(_, count)| **count != 0);
    counts.map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}

/// Asks for confirmation. Without a terminal, `--yes` is required.
pub fn is_sure(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("{question} Add --yes: there is no terminal to ask on");
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
