//! Versions of the stored data.
//!
//! Each partition stores its schema. Every script that changes a partition refuses a pod that does not know the
//! schema (`NEWER_SCHEMA`). It also refuses records in another schema (`STALE_SCHEMA`), and returns the right schema.
//! A version of Reseq reads all schemas that it knows, and writes in the schema of the partition. So pods of two
//! versions work side by side, until `reseq migrate` raises the schema.

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

/// The schemas of the partitions, as far as this pod knows. They are hints: the scripts check the schema.
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

    /// Logs the error, but at most once per `LOG_EVERY`.
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
