//! Selects dead letters for a command.

use anyhow::ensure;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::common::object;

/// Sequences, all, or a filter.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// Sequences of the dead letters
    #[arg(value_name = "SEQUENCE")]
    sequences: Vec<u64>,
    /// All dead letters of the destination
    #[arg(long)]
    all: bool,
    /// Those with this ordering key; "" means no key
    #[arg(long)]
    key: Option<String>,
    /// Those that failed in this stage: transform or delivery
    #[arg(long)]
    stage: Option<String>,
    /// Those with this sequence or later
    #[arg(long)]
    from: Option<u64>,
    /// Those with this sequence or earlier
    #[arg(long)]
    to: Option<u64>,
    /// Those with this text in their reason or in one of their errors
    #[arg(long)]
    error: Option<String>,
}

impl Which {
    /// The request body for the service.
    pub fn request(&self, dry_run: bool) -> anyhow::Result<Value> {
        let filter = object(&[
            ("key", self.key.as_deref().map(Value::from)),
            ("stage", self.stage.as_deref().map(Value::from)),
            ("from", self.from.map(Value::from)),
            ("to", self.to.map(Value::from)),
            ("error", self.error.as_deref().map(Value::from)),
        ]);
        let is_filtered = filter.as_object().is_some_and(|filter| !filter.is_empty());
        let ways = [!self.sequences.is_empty(), self.all, is_filtered];
        ensure!(
            ways.iter().filter(|way| **way).count() == 1,
            "name sequences, or --all, or some of --key, --stage, --from, --to and --error"
        );
        Ok(object(&[
            ("sequences", (!self.sequences.is_empty()).then(|| json!(self.sequences))),
            ("all", self.all.then_some(json!(true))),
            ("filter", is_filtered.then_some(filter)),
            ("dry_run", dry_run.then_some(json!(true))),
        ]))
    }
}
