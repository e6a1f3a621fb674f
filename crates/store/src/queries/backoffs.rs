//! Lanes that wait for the end of a backoff before their head is delivered again.

use redis::Pipeline;

use crate::{Store, StoreError, entry::CatalogEntry};
use domain::{DeliveryKind, Ordering, Sequence};

/// The most lanes that are read together.
const AT_ONCE: isize = 500;

impl Store {
    /// Lanes whose head waits for its backoff, each with this head: some of them, after the first `skipped`. `None`
    /// if there are no more. Skips lanes that a consumer holds.
    pub async fn heads_in_backoff(
        &self,
        entry: &CatalogEntry,
        skipped: usize,
    ) -> Result<Option<Vec<(Option<String>, Sequence)>>, StoreError> {
        let keys = self.keys_of(entry);
        let now_ms = self.time_at(&keys.hash()).await?;
        let mut pipe = Pipeline::new();
        if entry.destination.ordering == Ordering::Destination {
            pipe.zscore(keys.partition.releasable(), entry.destination.name.as_str());
            let (until,): (Option<f64>,) = self.query(&pipe).await?;
            if skipped > 0 || until.is_none_or(|until| until <= now_ms as f64) {
                return Ok(None);
            }
            let head = self.lane_head(entry, None).await?;
            return Ok(Some(head.map(|head| (None, head)).into_iter().collect()));
        }
        // The score of a lane in backoff is the end of the backoff. Other scores are far below any time.
        let (first, from) = (now_ms + 1, skipped as isize);
        pipe.zrangebyscore_limit(keys.lanes(), first, "+inf", from, AT_ONCE);
        let (lanes,): (Vec<String>,) = self.query(&pipe).await?;
        if lanes.is_empty() {
            return Ok(None);
        }
        let held_until: Vec<Option<f64>> = match entry.destination.delivery.kind {
            DeliveryKind::Pull => {
                let mut pipe = Pipeline::new();
                pipe.zscore_multiple(keys.consumer_lease_ends(), &lanes);
                let (ends,) = self.query(&pipe).await?;
                ends
            }
            DeliveryKind::Push | DeliveryKind::None => vec![None; lanes.len()],
        };
        let mut pipe = Pipeline::new();
        for lane in &lanes {
            match entry.destination.ordering {
                Ordering::Key => pipe.zrange(keys.in_progress(Some(lane)), 0, 0),
                // Each message is its own lane.
                Ordering::None | Ordering::Destination => {
                    pipe.zrangebyscore(keys.in_progress(None), lane, lane)
                }
            };
        }
        let heads = self.query_lenient(&pipe).await?.into_iter();
        let heads =
            heads.map(|head| redis::from_redis_value::<Vec<Sequence>>(head).ok()?.first().copied());
        let is_free = |until: Option<f64>| until.is_none_or(|until| until <= now_ms as f64);
        let found = lanes.into_iter().zip(heads).zip(held_until);
        let found = found.filter(|(_, until)| is_free(*until));
        Ok(Some(found.filter_map(|((lane, head), _)| Some((Some(lane), head?))).collect()))
    }
}
