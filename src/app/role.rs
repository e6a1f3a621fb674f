//! The roles that a process may have.

use std::str::FromStr;

/// What a process does. One may do all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes messages in.
    Ingest,
    /// Transforms them.
    Processor,
    /// Delivers them.
    Sender,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Processor, Role::Sender];
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ingest" => Ok(Role::Ingest),
            "processor" => Ok(Role::Processor),
            "sender" => Ok(Role::Sender),
            _ => Err(format!("{text:?} is no role; there are ingest, processor and sender")),
        }
    }
}
