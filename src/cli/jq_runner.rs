//! `reseq jq-runner`: evaluates a `jq` expression for a service, which starts and kills it. Not meant
//! for users.

use anyhow::Context;

use crate::jq::child;

/// Evaluates the inputs from standard input, until it is closed.
pub fn run() -> anyhow::Result<()> {
    child::run().context("the jq runner of a service failed")
}
