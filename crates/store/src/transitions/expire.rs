//! Removes dead letters that are too old (`lua/expire.lua`).

use std::sync::Arc;

use crate::{Store, StoreError, contract::contract, entry::CatalogEntry, keys::DestinationKeys};
use domain::Sequence;
use redis_client::{read, server_clock_ms};

contract! {
    expire
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), dead_letters, dead_letter_messages, epoch, bodies,
        dead_lettered_at,
    }
    args {
        version: u64,
        age_max: u64,
        most: u64,
    }
}

/// The most dead letters that one call expires.
const EXPIRE_MAX: u64 = 500;

/// The most such calls in a row for one destination.
const EXPIRE_CALLS_MAX: usize = 100;

impl Store {
    /// Removes dead letters that are older than their destination's limit. The owner of the partitions calls this now
    /// and then, for a few destinations at a time.
    pub async fn expire_dead_letters(&self, all: &[Arc<CatalogEntry>]) {
        let concerned = all.iter().filter(|entry| entry.destination.dead_letters_age_max_ms > 0);
        let concerned: Vec<_> = concerned.collect();
        let looks = concerned.iter().map(|entry| {
            let key = self.keys_of(entry).dead_lettered_at();
            let mut pipe = redis::pipe();
            pipe.zrange_withscores(key, 0, 0);
            pipe
        });
        let oldest = self.query_each(&looks.collect::<Vec<_>>()).await;
        for (entry, oldest) in concerned.iter().zip(oldest) {
            let Ok(oldest) = oldest else { continue };
            let oldest: Vec<(Sequence, u64)> =
                read(oldest.into_iter().next(), "the oldest dead letter").unwrap_or_default();
            let age_ms = entry.destination.dead_letters_age_max_ms;
            let last_ms = server_clock_ms().saturating_sub(age_ms);
            if oldest.first().is_none_or(|(_, at_ms)| *at_ms > last_ms) {
                continue;
            }
            let name = &entry.destination.name;
            match self.expire(entry).await {
                Ok(count) => {
                    tracing::info!(destination = %name, count, "old dead letters were removed");
                }
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot remove old dead letters");
                }
            }
        }
    }

    /// Removes a destination's expired dead letters, and returns how many it removed. If there are very many, the
    /// next call removes the rest.
    pub async fn expire(&self, entry: &CatalogEntry) -> Result<u64, StoreError> {
        let keys = self.keys_of(entry);
        let mut all = 0;
        for _ in 0..EXPIRE_CALLS_MAX {
            let call = Args {
                version: entry.version,
                age_max: entry.destination.dead_letters_age_max_ms,
                most: EXPIRE_MAX,
            }
            .call(self, &keys);
            let count: u64 = self.run(&call).await?;
            all += count;
            if count < EXPIRE_MAX {
                break;
            }
        }
        Ok(all)
    }
}
