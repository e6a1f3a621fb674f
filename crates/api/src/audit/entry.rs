//! One entry of the audit log, as Redis and the API store and show it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An action of an operator: the caller, the action, its target and its outcome. It never holds a body, a definition or
/// a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditedAction)]
pub struct Entry {
    /// The id of the token that the caller has shown. `admin_token`: the token of the configuration.
    /// `loopback_without_token`: there is no token yet. `anyone`: `auth.mode = "none"`. `configuration_file`: the file
    /// of a process.
    pub actor: String,
    /// The name of the token; for a configuration file, the name of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
    /// The subject of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The address and port from which the request came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The action: the `operationId` of its route.
    pub action: String,
    /// The destination that the action concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The topic, token, message or operation that the action concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How many messages, definitions or tokens the action changed.
    pub affected: u64,
    /// `succeeded`, or the code of the error; for a bulk operation, its state. `unfinished`: the client left before the
    /// answer. `not_written`: a configuration file did not change the definition that is in force.
    pub outcome: String,
    /// The id of the bulk operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// True if the action only counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The `x-request-id` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Entry {
    /// Reads a stored entry. If that fails, the entry has only the outcome `unreadable`.
    pub(super) fn read(text: &str) -> Entry {
        serde_json::from_str(text)
            .unwrap_or_else(|_| Entry { outcome: "unreadable".to_owned(), ..Entry::default() })
    }

    /// True if this caller, named by its id or by the name of its token, carried out the action.
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
