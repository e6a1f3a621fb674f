//! Deliberate mistakes that test builds can plant in group commit.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Job, stamp::Stamping};
use crate::Receipt;
use domain::{Durability, Epoch, Position};
use faults::planted;

impl Stamping {
    /// Injects the planted mistakes. Returns the jobs that remain to be stamped.
    pub(super) fn inject_faults(self: &Arc<Self>, mut jobs: Vec<Job>) -> Option<Vec<Job>> {
        if planted::is("answered_early") {
            jobs.iter_mut().for_each(|job| job.answer_early(self.store.message_epoch(&job.entry)));
        }
        if planted::is("batches_side_by_side") {
            let beside = self.clone();
            tokio::spawn(async move { beside.stamp_all(jobs).await });
            return None;
        }
        Some(jobs)
    }
}

impl Job {
    /// Answers the producer before the message is stamped.
    fn answer_early(&mut self, epoch: Epoch) {
        let (position, durability) = (Position { epoch, sequence: 1 }, Durability::Memory);
        let destination = self.entry.destination.name.clone();
        let receipt = Receipt { destination, position, durability, duplicate_of: None };
        let reply = std::mem::replace(&mut self.reply, oneshot::channel().0);
        let _ = reply.send(vec![Ok(receipt); self.copies.len()]);
    }
}
