//! `reseq-bench processor`: a processor with the bench's work linked in. Only the bench starts it.

use std::{path::PathBuf, time::Instant};

use async_trait::async_trait;
use clap::Args;
use domain::{Body, Stamped};
use processor::{Failure, Output, Transform};
use reseq::app::Role;
use tokio::time::sleep;

use super::plan::{Work, numbered, worked_body};

/// The name of the registered transform.
pub const NAME: &str = "bench";

/// The arguments of `reseq-bench processor`.
#[derive(Debug, Clone, Args)]
pub struct ProcessorArgs {
    #[arg(long)]
    config: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    work_min_us: u64,
    #[arg(long)]
    work_max_us: u64,
    /// Take messages too.
    #[arg(long)]
    ingest: bool,
}

struct Waits(Work);

#[async_trait]
impl Transform for Waits {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        let body = &message.message.body;
        let message = numbered(&body.bytes)
            .ok_or_else(|| Failure::permanent("this is not one of the bench's messages"))?;
        let work = self.0.of(message.number);
        // A wait of zero would be rounded up to a millisecond.
        if work.is_zero() {
            return Ok(Output::Deliver(body.clone()));
        }
        let begin = Instant::now();
        sleep(work).await;
        let bytes = worked_body(&body.bytes, begin.elapsed()).into();
        Ok(Output::Deliver(Body { content_type: body.content_type.clone(), bytes }))
    }
}

/// Runs until SIGTERM.
pub fn run(args: ProcessorArgs) -> anyhow::Result<()> {
    let work = Work { seed: args.seed, min_us: args.work_min_us, max_us: args.work_max_us };
    let mut roles = vec![Role::Processor];
    roles.extend(args.ingest.then_some(Role::Ingest));
    reseq::serve::run(Some(&args.config), roles, |reseq| reseq.transform(NAME, Waits(work)))
}
