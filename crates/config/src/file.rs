//! Reads the configuration file, and describes its errors.

use std::{collections::HashMap, ops::Range, path::Path};

use super::{Config, ConfigError, secrets::resolve};
use domain::{nearest::for_people, secret};

pub(super) fn read(path: &Path, variables: HashMap<String, String>) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
    parse(path, &text, move |reference| resolve(reference, &variables))
}

/// Parses the text of the file at `path`.
pub(super) fn parse(
    path: &Path,
    text: &str,
    resolver: impl Fn(&secret::Reference) -> Result<String, String> + 'static,
) -> Result<Config, ConfigError> {
    secret::resolving(resolver, || toml::from_str::<Config>(text)).map_err(|error| {
        let problem = problem_in(text, error.message(), error.span());
        ConfigError::InvalidFile { path: path.into(), problem }
    })
}

/// Describes an error in a file, with line and field. Never quotes the line or a value: either
/// may be a secret.
fn problem_in(text: &str, message: &str, at: Option<Range<usize>>) -> String {
    let message = match (message.strip_prefix("invalid type: string "), message.rfind(", expected"))
    {
        (Some(_), Some(end)) => format!("invalid type: a string{}", &message[end..]),
        _ => for_people(message),
    };
    let Some(before) = at.and_then(|at| text.get(..at.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let begun = before.rsplit('\n').next().unwrap_or_default();
    let field = begun.trim_end().strip_suffix('=').and_then(|path| path.rsplit(['{', ',']).next());
    let field = match field.map(str::trim) {
        Some(field) if !field.contains(['"', '\'', ' ']) => format!(" ({field})"),
        _ => String::new(),
    };
    format!("line {line}, column {}{field}: {message}", begun.chars().count() + 1)
}
