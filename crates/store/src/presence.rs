//! What each pod says of itself in the list of live pods (`reseq:pods`):
//!
//! ```text
//! schema:<newest schema that it knows>:<pod>                  until its roles are known
//! schema:<newest schema that it knows>:<pod>:<roles>:<seconds>:<host>   roles separated by commas
//! ```
//!
//! The seconds are how far its clock is ahead of that of Redis; 0 up to one second.

use std::time::Duration;

use super::known_schema::{FIRST, known};

/// A pod counts as alive for this long after its last report.
pub(crate) const PRESENCE: Duration = Duration::from_secs(5);

/// The first word, in which these heartbeats differ from those of senders.
const ROLE: &str = "schema";

/// What a pod says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence<'m> {
    /// The newest schema that it knows.
    pub(crate) schema: u32,
    /// Its unique name.
    pub(crate) pod: &'m str,
    /// Its roles; empty until they are known.
    pub(crate) roles: &'m str,
    /// How far its clock is ahead of that of Redis, in seconds.
    pub(crate) ahead_s: i64,
    /// The name of its machine or container; empty until its roles are known.
    pub(crate) host: &'m str,
}

impl<'m> Presence<'m> {
    /// Reads a member of the list; `None` for heartbeats of other kinds.
    pub(crate) fn read(member: &'m str) -> Option<Presence<'m>> {
        let mut parts = member.splitn(6, ':');
        let schema = parts.next().filter(|kind| *kind == ROLE).and(parts.next())?;
        let pod = parts.next()?;
        let roles = parts.next().unwrap_or_default();
        let ahead_s = parts.next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let host = parts.next().unwrap_or_default();
        Some(Presence { schema: schema.parse().unwrap_or(FIRST), pod, roles, ahead_s, host })
    }
}

/// The role of this version's heartbeats.
pub(crate) fn role() -> String {
    format!("{ROLE}:{}", known())
}

/// What follows the pod's name.
pub(crate) fn about(roles: &str, ahead_s: i64, host: &str) -> String {
    format!(":{roles}:{ahead_s}:{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let member = format!("{}:ab12{}", role(), about("ingest,sender", -7, "host-7"));
        let found = Presence::read(&member).unwrap();
        assert_eq!((found.schema, found.pod), (known(), "ab12"));
        assert_eq!((found.roles, found.ahead_s, found.host), ("ingest,sender", -7, "host-7"));
        let first = format!("{}:ab12", role());
        let first = Presence::read(&first).unwrap();
        assert_eq!((first.pod, first.roles, first.host), ("ab12", "", ""));
        assert_eq!(Presence::read("sender:ab12"), None);
    }
}
