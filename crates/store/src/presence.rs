//! The description of each pod in the list of live pods (`reseq:pods`):
//!
//! ```text
//! schema:<newest schema that it knows>:<pod>                  until its roles are known
//! schema:<newest schema that it knows>:<pod>:<roles>:<seconds>:<host>:<version>:<started, ms since 1970>:<address>
//! ```
//!
//! Commas separate the roles. The seconds are how far the pod's clock is ahead of the clock of Redis; 0 up to one
//! second. The address is the address of the pod's HTTP listener.

use std::time::Duration;

use super::known_schema::{FIRST, known};

/// A pod counts as alive for this long after its last report.
pub(crate) const PRESENCE: Duration = Duration::from_secs(5);

/// The first word of these heartbeats. It distinguishes them from the heartbeats of senders.
const ROLE: &str = "schema";

/// The description of a pod in a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence<'m> {
    /// The newest schema that the pod knows.
    pub(crate) schema: u32,
    /// The unique name of the pod.
    pub(crate) pod: &'m str,
    /// The pod's roles; empty until they are known.
    pub(crate) roles: &'m str,
    /// How far the pod's clock is ahead of the clock of Redis, in seconds.
    pub(crate) ahead_s: i64,
    /// The name of the pod's machine or container; empty until its roles are known.
    pub(crate) host: &'m str,
    /// The version of the pod; empty until its roles are known.
    pub(crate) version: &'m str,
    /// When the pod started, by the clock of Redis, in ms since 1970; 0 until its roles are known.
    pub(crate) started_ms: u64,
    /// The address at which the pod listens for HTTP, as configured; empty until its roles are known.
    pub(crate) address: &'m str,
}

/// The part of a pod's description that does not change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The pod's roles, separated by commas.
    pub roles: String,
    /// The address at which the pod listens for HTTP.
    pub address: String,
}

impl<'m> Presence<'m> {
    /// Reads a member of the list; `None` for heartbeats of other kinds.
    pub(crate) fn read(member: &'m str) -> Option<Presence<'m>> {
        // An address may contain colons.
        let mut parts = member.splitn(9, ':');
        let schema = parts.next().filter(|kind| *kind == ROLE).and(parts.next())?;
        let pod = parts.next()?;
        let roles = parts.next().unwrap_or_default();
        let ahead_s = parts.next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        let mut text = || parts.next().unwrap_or_default();
        let (host, version) = (text(), text());
        let started_ms = text().parse().unwrap_or_default();
        let (schema, address) = (schema.parse().unwrap_or(FIRST), text());
        Some(Presence { schema, pod, roles, ahead_s, host, version, started_ms, address })
    }
}

/// The role of this version's heartbeats.
pub(crate) fn role() -> String {
    format!("{ROLE}:{}", known())
}

impl About {
    /// The part of a heartbeat after the pod's name.
    pub(crate) fn member(&self, ahead_s: i64, host: &str, started_ms: u64) -> String {
        let About { roles, address } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!(":{roles}:{ahead_s}:{host}:{version}:{started_ms}:{address}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let about = About { roles: "ingest,sender".into(), address: "[::1]:8080".into() };
        let member = format!("{}:ab12{}", role(), about.member(-7, "host-7", 5));
        let found = Presence::read(&member).unwrap();
        assert_eq!((found.schema, found.pod), (known(), "ab12"));
        assert_eq!((found.roles, found.ahead_s, found.host), ("ingest,sender", -7, "host-7"));
        assert_eq!(found.version, env!("CARGO_PKG_VERSION"));
        assert_eq!((found.started_ms, found.address), (5, "[::1]:8080"));
        let first = format!("{}:ab12", role());
        let first = Presence::read(&first).unwrap();
        assert_eq!((first.pod, first.roles, first.host), ("ab12", "", ""));
        assert_eq!(Presence::read("sender:ab12"), None);
    }
}
