//! `reseq jq-runner`: evaluates a `jq` expression for a processor, which starts it and kills it.
//! Nothing for people to call.

use anyhow::Context;

use crate::processor::transform::jq::evaluate;

/// Answers on standard output what it is asked on standard input, until that is closed.
pub fn run() -> anyhow::Result<()> {
    evaluate::run().context("the jq runner, which a processor starts, broke off")
}
