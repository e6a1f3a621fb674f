//! The result of a run, in any kind of measurement.

use std::fmt;

use serde::Serialize;

use super::{
    failover::Failovers,
    hostile::Hostile,
    idle::Idle,
    report::{Report, Step},
};

/// The report of a run.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// Throughput, latency and cost.
    Load(Box<Report>),
    /// The resources used while no messages are sent.
    Idle(Idle),
    /// How long lanes stand still when their sender leaves or another sender joins.
    Failovers(Failovers),
    /// The effect of strangers' connections on the latency of other clients.
    Hostile(Hostile),
}

impl Outcome {
    /// True if every message arrived, in order, and all pods did their part.
    pub fn is_well(&self) -> bool {
        match self {
            Outcome::Load(report) => report.is_well(),
            Outcome::Idle(idle) => idle.all_owned && idle.problems.is_empty(),
            Outcome::Failovers(report) => report.is_well(),
            Outcome::Hostile(report) => report.is_well(),
        }
    }

    /// Problems besides the messages, in words.
    pub fn problems(&mut self) -> &mut Vec<String> {
        match self {
            Outcome::Load(report) => &mut report.problems,
            Outcome::Idle(idle) => &mut idle.problems,
            Outcome::Failovers(report) => &mut report.problems,
            Outcome::Hostile(report) => &mut report.problems,
        }
    }

    /// The steps of the ramp; empty without a ramp.
    pub fn ramp(&self) -> &[Step] {
        match self {
            Outcome::Load(report) => &report.ramp,
            Outcome::Idle(_) | Outcome::Failovers(_) | Outcome::Hostile(_) => &[],
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Load(report) => report.fmt(f),
            Outcome::Idle(idle) => idle.fmt(f),
            Outcome::Failovers(report) => report.fmt(f),
            Outcome::Hostile(report) => report.fmt(f),
        }
    }
}
