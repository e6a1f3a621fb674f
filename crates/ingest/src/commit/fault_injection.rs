//! Bugs that can be planted in group commit.

use tokio::sync::oneshot;

use super::{Job, task::CommitTask};
use crate::Receipt;
use domain::{Durability, Position};
use faults::planted;

impl CommitTask {
    /// The jobs that remain to be stamped.
    pub(super) fn inject_faults(&self, mut jobs: Vec<Job>) -> Option<Vec<Job>> {
        if planted::is("answered_early") {
            jobs.iter_mut().for_each(|job| job.answer_early(self.epoch));
        }
        if planted::is("batches_side_by_side") {
            let mut beside = self.beside();
            tokio::spawn(async move { beside.stamp_all(jobs).await });
            return None;
        }
        Some(jobs)
    }

    /// A second task for the same destination.
    fn beside(&self) -> CommitTask {
        let call_sequence = self.store.new_call_sequence("beside");
        let (store, catalog, name) = (self.store.clone(), self.catalog.clone(), self.name.clone());
        let watermark = self.watermark.clone();
        let CommitTask { batch_max, retry, epoch, .. } = *self;
        let (due, memory) = (self.due.clone(), self.memory.clone());
        CommitTask {
            store,
            catalog,
            watermark,
            due,
            memory,
            name,
            call_sequence,
            batch_max,
            retry,
            epoch,
        }
    }
}

impl Job {
    /// Answers the producer before anything is stamped.
    fn answer_early(&mut self, epoch: u64) {
        let (position, durability) = (Position { epoch, sequence: 1 }, Durability::Memory);
        let receipt = Receipt { position, durability, duplicate_of: None };
        let reply = std::mem::replace(&mut self.reply, oneshot::channel().0);
        let _ = reply.send(vec![Ok(receipt); self.arrivals.len()]);
    }
}
