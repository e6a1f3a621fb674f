//! Versions of what is stored.
//!
//! Each partition notes its schema. Every script that changes a partition refuses a pod that does not
//! know it (`NEWER_SCHEMA`), and refuses records of another one (`STALE_SCHEMA`): then the pod learns
//! which it is. A version reads the records of all schemas that it knows. It writes those of the
//! partition's, so that the pods of two versions work side by side, until `reseq migrate` raises it.

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Store, StoreError, known_schema::FIRST};

/// How often a call is made again in the schema that its refusal names.
const AGAIN_MAX: usize = 2;

/// How often a refusal by a newer schema is logged at most.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What this pod has heard of the partitions' schemas. A hint: the scripts check.
pub(super) struct Schemas {
    pub(super) of_partitions: Vec<AtomicU32>,
    /// When it was last said that Redis holds a newer one.
    told: Mutex<Option<Instant>>,
}

impl Schemas {
    pub(super) fn new(partitions: u16) -> Schemas {
        let of_partitions = (0..partitions).map(|_| AtomicU32::new(FIRST)).collect();
        Schemas { of_partitions, told: Mutex::default() }
    }

    /// Says why nothing goes on, not too often.
    pub(super) fn tell(&self, error: &StoreError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            tracing::error!("{error}");
        }
    }
}

impl Store {
    /// The schema in which records of this partition are to be written, as far as this pod knows.
    fn schema_of(&self, partition: u16) -> u32 {
        let found = self.inner.schemas.of_partitions.get(usize::from(partition));
        found.map_or(FIRST, |schema| schema.load(Ordering::Relaxed))
    }

    /// Makes a call that writes records, in the partition's schema.
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
