//! What a running process takes from a changed configuration, and what it takes only at its next start.

use toml::Value;

use super::Config;

/// The fields that a process takes while it runs.
const RELOADED: [&str; 6] = [
    "auth.admin_token",
    "auth.admin_token_file",
    "auth.requests_per_token_max",
    "http.connections_per_address_max",
    "log.level",
    "outgoing.allow",
];

/// The fields that differ, by how they come into force.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Taken while the process runs.
    pub reloaded: Vec<String>,
    /// Taken at the next start.
    pub at_start: Vec<String>,
}

impl Config {
    /// What another configuration changes in this one.
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
