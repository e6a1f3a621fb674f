//! The fields of a changed configuration that a running process adopts, and the fields that need a restart.

use toml::Value;

use super::Config;

/// The fields that a process adopts while it runs.
const RELOADED: [&str; 6] = [
    "auth.admin_token",
    "auth.admin_token_file",
    "auth.requests_per_token_max",
    "http.connections_per_address_max",
    "log.level",
    "outgoing.allow",
];

/// The fields that differ, by when a process adopts them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The process adopts these fields while it runs.
    pub reloaded: Vec<String>,
    /// The process adopts these fields at the next start.
    pub at_start: Vec<String>,
}

impl Config {
    /// The fields that differ in `other`.
    pub fn changes_in(&self, other: &Config) -> Changes {
        let mut changes = Changes::default();
        if let (Ok(old), Ok(new)) = (Value::try_from(self), Value::try_from(other)) {
            compare("", Some(&old), Some(&new), &mut changes);
        }
        changes
    }
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
    let (Some(Value::Table(old)), Some(Value::Table(new))) = (old, new) else {
        let list = match RELOADED.contains(&path) {
            true => &mut changes.reloaded,
            false => &mut changes.at_start,
        };
        if old != new {
            list.push(path.to_owned());
        }
        return;
    };
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let of_it = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(&of_it, old.get(name), new.get(name), changes);
    }
}
