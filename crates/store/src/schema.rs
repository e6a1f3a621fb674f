//! Versions of what is stored.
//!
//! Each partition stores its schema. Every script that changes a partition refuses a pod that does
//! not know that schema (`NEWER_SCHEMA`), and records in another one (`STALE_SCHEMA`): the pod then
//! learns the right one. A version reads all schemas that it knows, and writes the partition's. So
//! pods of two versions work side by side, until `reseq migrate` raises the schema.

use std::{
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Store, StoreError, known_schema::FIRST};

/// How often to repeat a call in the schema that its refusal names.
const AGAIN_MAX: usize = 2;

/// The shortest time between two log lines about a newer schema.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The schemas of the partitions that this pod knows. A hint: the scripts check.
pub(super) struct Schemas {
    pub(super) of_partitions: Vec<AtomicU32>,
    /// When the newer schema was last logged.
    logged: Mutex<Option<Instant>>,
}

impl Schemas {
    pub(super) fn new(partitions: u16) -> Schemas {
        let of_partitions = (0..partitions).map(|_| AtomicU32::new(FIRST)).collect();
        Schemas { of_partitions, logged: Mutex::default() }
    }

    /// Logs the error, not too often.
    pub(super) fn log(&self, error: &StoreError) {
        let mut logged = self.logged.lock();
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            tracing::error!("{error}");
        }
    }
}

impl Store {
    /// The schema for records of this partition, as far as this pod knows.
    fn schema_of(&self, partition: u16) -> u32 {
        let found = self.inner.schemas.of_partitions.get(usize::from(partition));
        found.map_or(FIRST, |schema| schema.load(Ordering::Relaxed))
    }

    /// Makes a call that writes records, and repeats it if the partition has another schema.
    pub(super) async fn in_schema<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        partition: u16,
        call: impl Fn(u32) -> F,
    ) -> Result<T, StoreError> {
        let mut answer = call(self.schema_of(partition)).await;
        for _ in 0..AGAIN_MAX {
            let Err(StoreError::StaleSchema(now)) = answer else { break };
            tracing::info!(partition, schema = now, "the schema of a partition has changed");
            if let Some(noted) = self.inner.schemas.of_partitions.get(usize::from(partition)) {
                noted.store(now, Ordering::Relaxed);
            }
            answer = call(now).await;
        }
        answer
    }
}
