//! The durability of a run's destinations, and its promises.

use std::{fmt, str::FromStr};

use crate::{
    plan::{Kind, Topology},
    support::examiner::Losses,
};

/// The meaning of an acknowledgement (docs/explanation/durability.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Memory,
    Quorum,
    Replicated,
    Fsynced,
}

const ALL: [Level; 4] = [Level::Memory, Level::Quorum, Level::Replicated, Level::Fsynced];

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Memory => "memory",
            Level::Quorum => "quorum",
            Level::Replicated => "replicated",
            Level::Fsynced => "fsynced",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let found = ALL.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| format!("TORTURE_DURABILITY is one of {ALL:?}, in lower case"))
    }
}

impl Level {
    /// The default differs between the topologies, so that a short run has a mixture.
    pub fn default_of(topology: Topology) -> Level {
        match topology {
            Topology::Single => Level::Fsynced,
            Topology::Sentinel => Level::Quorum,
            Topology::Cluster => Level::Replicated,
        }
    }

    /// True if such a failure of a primary loses no acknowledged message, even if its replicas
    /// lag. If false, the harness pauses the writes first.
    pub fn survives(self, kind: Kind) -> bool {
        match self {
            Level::Memory | Level::Fsynced => false,
            Level::Replicated => true,
            // While sentinels change the primary and all servers live, the old primary continues
            // with the replica that was not promoted: a majority without the new primary.
            Level::Quorum => kind != Kind::Failover,
        }
    }

    /// The losses that the verification must expect.
    pub fn losses(self) -> Losses {
        match self {
            Level::Memory | Level::Fsynced => Losses::None,
            Level::Quorum | Level::Replicated => Losses::Unconfirmed,
        }
    }
}
