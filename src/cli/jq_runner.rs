//! `reseq jq-runner`: evaluates a `jq` expression for a processor, which starts and kills it. Not
//! meant for users.

use anyhow::Context;

use crate::processor::transform::jq::evaluate;

/// Answers requests from standard input on standard output, until the input is closed.
pub fn run() -> anyhow::Result<()> {
    evaluate::run().context("the jq runner of a processor failed")
}
