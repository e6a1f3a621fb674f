//! `--watch`: prints the output of a command again every second.

use std::{io::IsTerminal, time::Duration};

use clap::Args;

use super::output::{Output, write_out};

/// The time between two updates.
const EVERY: Duration = Duration::from_secs(1);

/// The option `--watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// Update every second until Ctrl-C
    #[arg(long)]
    pub watch: bool,
}

impl WatchArgs {
    /// Prints the result of `shown`: once, or again and again until Ctrl-C.
    pub async fn print(
        &self,
        output: Output,
        mut shown: impl AsyncFnMut() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if !self.watch {
            return write_out(&shown().await?);
        }
        let clear = std::io::stdout().is_terminal() && output == Output::Table;
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            let text = tokio::select! {
                text = async { ticks.tick().await; shown().await } => text,
                signal = tokio::signal::ctrl_c() => return Ok(signal?),
            };
            if clear {
                // Move to the top and clear to the end, which does not flicker. This is not a colour, but `write_out`
                // would remove it with the colours.
                print!("\x1b[H\x1b[J");
            }
            match (text, output) {
                (Ok(text), _) => write_out(&text)?,
                // If the service does not answer, show the error and continue.
                (Err(error), Output::Table) => write_out(&format!("{error:#}"))?,
                (Err(error), _) => eprintln!("{error:#}"),
            }
        }
    }
}
