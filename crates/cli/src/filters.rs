//! Options that select messages, with the same names in every list and selection.

use clap::Args;
use client::paths::{Field, text};
use serde_json::Value;

/// A range of sequences and times, including both ends.
#[derive(Debug, Clone, Default, Args)]
pub struct Range {
    /// Only this sequence and later
    #[arg(long, value_name = "SEQUENCE")]
    pub from_sequence: Option<u64>,
    /// Only this sequence and earlier
    #[arg(long, value_name = "SEQUENCE")]
    pub to_sequence: Option<u64>,
    /// Only this time and later, for example 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    pub from_time: Option<String>,
    /// Only this time and earlier
    #[arg(long, value_name = "TIME")]
    pub to_time: Option<String>,
}

impl Range {
    /// The fields of this range in a request.
    pub fn fields(&self) -> Vec<Field> {
        vec![
            ("from_sequence", self.from_sequence.map(Value::from)),
            ("to_sequence", self.to_sequence.map(Value::from)),
            ("from_time", text(self.from_time.as_deref())),
            ("to_time", text(self.to_time.as_deref())),
        ]
    }
}

/// Options that choose the part of a list to print.
#[derive(Debug, Clone, Args)]
pub struct Paging {
    /// How many items to print, 1 to 1000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Print all items, page by page
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Continue at this cursor, which the list printed at its end
    #[arg(long)]
    pub cursor: Option<String>,
}

impl Paging {
    /// The number of items to print.
    pub fn max(&self) -> usize {
        if self.all { usize::MAX } else { self.limit as usize }
    }
}
