//! `reseq show`: shows one message, or its outcome.

use std::{collections::BTreeMap, fmt::Write};

use clap::Args;
use serde_json::value::RawValue;

use super::common::{At, path_of, plain};

/// The arguments of `reseq show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    at: At,
    /// Name of the destination
    destination: String,
    /// Sequence of the message
    sequence: u64,
}

/// Runs the command.
pub async fn run(args: ShowArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, &format!("messages/{}", args.sequence));
    let answer = args.at.get(&path).await?;
    args.at.print(&answer, |_| in_lines(&answer.text));
    Ok(())
}

/// A message with one field per line, and numbers as in the original. Omits empty fields.
pub fn in_lines(message: &str) -> String {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(message).unwrap_or_default();
    let mut text = String::new();
    for (name, value) in &fields {
        let value = value.get();
        let shown = match name.as_str() {
            _ if value == "null" || name == "errors" && value == "[]" => continue,
            "errors" => {
                let errors: Vec<&RawValue> = serde_json::from_str(value).unwrap_or_default();
                errors.iter().map(|error| format!("\n    {}", plain(error.get()))).collect()
            }
            // Strings without quotes; other values unchanged.
            _ => plain(&serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {shown}");
    }
    text
}
