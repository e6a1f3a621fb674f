//! The roles of a process.

use std::{collections::HashSet, str::FromStr};

/// A part of the work of Reseq. One process may have all roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Accepts messages and stores them in Redis.
    Ingest,
    /// Transforms messages.
    Processor,
    /// Delivers messages.
    Sender,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Processor, Role::Sender];

    /// The names of these roles, in the order of [`Role::ALL`], separated by commas.
    pub(crate) fn names<'r>(roles: impl IntoIterator<Item = &'r Role>) -> String {
        let roles: HashSet<&Role> = roles.into_iter().collect();
        let names = Role::ALL.iter().filter(|role| roles.contains(role)).map(|role| role.name());
        names.collect::<Vec<_>>().join(",")
    }

    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Processor => "processor",
            Role::Sender => "sender",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ingest" => Ok(Role::Ingest),
            "processor" => Ok(Role::Processor),
            "sender" => Ok(Role::Sender),
            _ => Err(format!("{text:?} is not a role; the roles are ingest, processor and sender")),
        }
    }
}
