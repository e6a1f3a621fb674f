//! Asks for confirmation before a command destroys something.

use std::io::{IsTerminal, Write};

use anyhow::{bail, ensure};
use clap::Args;

/// The option that skips the question.
#[derive(Debug, Clone, Args)]
pub struct Confirmation {
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

impl Confirmation {
    /// Asks for confirmation, unless `--yes` was given. An error if the answer is not yes, or if there is no terminal.
    /// The question says how much is affected.
    pub async fn ask(
        &self,
        question: impl Future<Output = anyhow::Result<String>>,
    ) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let question = question.await?;
        if !std::io::stdin().is_terminal() {
            bail!("{question} Add --yes: there is no terminal to ask on");
        }
        eprint!("{question} [y/N] ");
        std::io::stderr().flush()?;
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        ensure!(matches!(line.trim(), "y" | "Y" | "yes"), "nothing was changed");
        Ok(())
    }
}
