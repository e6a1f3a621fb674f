//! One entry of the audit log, as Redis and the API have it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who did what to what, from where, and what came of it. It never holds a body, a definition or a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditedAction)]
pub struct Entry {
    /// The id of the token; `admin_token` for the one of the configuration, `loopback_without_token` as long as
    /// there is no token, `anyone` with `auth.mode = "none"`, `configuration_file` for the file of a process.
    pub actor: String,
    /// The name of the token; for a configuration file that of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
    /// The subject of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The address and port from which the request came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What was done: the `operationId` of the route.
    pub action: String,
    /// To which destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// To which topic, token, message or operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How many messages, definitions or tokens it changed.
    pub affected: u64,
    /// `succeeded`; the code of the error; for a bulk operation its state; `unfinished` if the client left before
    /// the answer; `not_written` if a configuration file did not change what runs.
    pub outcome: String,
    /// The id of the bulk operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// True if it only counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The `x-request-id` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Entry {
    /// Reads a stored entry. One that cannot be read shows only that it is there.
    pub(super) fn read(text: &str) -> Entry {
        serde_json::from_str(text)
            .unwrap_or_else(|_| Entry { outcome: "unreadable".to_owned(), ..Entry::default() })
    }

    /// True if this caller did it.
    pub(super) fn is_of(&self, actor: &str) -> bool {
        self.actor == actor || self.actor_name.as_deref() == Some(actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_entry_of_another_version_is_read_broken_one_shown() {
        let read = Entry::read(r#"{"actor":"a","action":"purge","affected":3,"later":true}"#);
        assert_eq!((read.action.as_str(), read.affected), ("purge", 3));
        for broken in ["", "{", "7", r#"{"affected":"many"}"#] {
            assert_eq!(Entry::read(broken).outcome, "unreadable", "{broken}");
        }
    }
}
