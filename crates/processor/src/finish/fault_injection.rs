//! A bug that can be planted in finishing.

use super::Finish;
use domain::{Arrival, Processed};
use faults::planted;
use store::{CatalogEntry, Completion, Failed};

impl Finish {
    /// Stamps failed messages again as new arrivals.
    pub(super) async fn inject_faults(
        &self,
        entry: &CatalogEntry,
        failed: Vec<Failed>,
    ) -> Vec<Failed> {
        if !planted::is("retry_restamped") {
            return failed;
        }
        for one in failed {
            self.restamp(entry, one).await;
        }
        Vec::new()
    }

    async fn restamp(&self, entry: &CatalogEntry, failed: Failed) {
        let found = self.store.messages(entry, &[failed.token.sequence]).await;
        let Ok(Some(Some(old))) = found.map(|mut found| found.pop()) else { return };
        let arrival = Arrival::of(old.message.clone());
        let other = self.store.call_sequence(&format!("restamp:{}", failed.token.sequence));
        let _ = self.store.ingest(&other, entry, old.position.epoch, &[&arrival]).await;
        let processed = Processed { waited_ms: 0, took_ms: 0, attempts: 1 };
        let output = old.finished(None, processed, false);
        let completions = [Completion { token: failed.token, output, is_unchanged: false }];
        let _ = self.store.complete(entry, &completions).await;
    }
}
