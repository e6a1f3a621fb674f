//! `reseq show`: one message, or what became of it.

use std::fmt::Write;

use clap::Args;
use serde_json::Value;

use super::common::{At, path_of, plain};

/// The arguments of `reseq show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    at: At,
    /// The destination.
    destination: String,
    /// The message.
    sequence: u64,
}

/// Shows it.
pub async fn run(args: ShowArgs) -> anyhow::Result<()> {
    let path = path_of(&args.destination, &format!("messages/{}", args.sequence));
    let answer = args.at.get(&path).await?;
    args.at.print(&answer, in_lines);
    Ok(())
}

/// A message, a field a line; what is empty is left out.
pub fn in_lines(message: &Value) -> String {
    let mut text = String::new();
    for (name, value) in message.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::String(value) => plain(value),
            Value::Array(errors) if name == "errors" => {
                let lines =
                    errors.iter().map(|error| format!("\n    {}", plain(&error.to_string())));
                match lines.collect::<String>() {
                    none if none.is_empty() => continue,
                    some => some,
                }
            }
            value => plain(&value.to_string()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {shown}");
    }
    text
}
