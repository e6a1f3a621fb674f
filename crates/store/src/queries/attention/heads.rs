//! Problems that only the oldest heads show: nobody takes messages, or they move too slowly.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    future::Future,
    time::Duration,
};

use futures::future::join_all;

use super::{Attention, Trouble};
use crate::{
    Store,
    entry::CatalogEntry,
    keys::Claimers,
    queries::stats::{Head, Stats},
};
use domain::{DeliveryKind, DestinationName, State};
use redis_client::server_clock_ms;

/// If nobody takes a message for longer than this, its destination needs attention, in ms.
pub(super) const UNTAKEN_MS: u64 = 60_000;
/// The most destinations that one call checks for workers. It checks those with the longest backlogs.
const UNTAKEN_MAX: usize = 100;
/// If a message is still the oldest of its destination after this time, the destination needs attention, in ms:
/// processing or delivery is too slow, although nothing fails. The alert ReseqHeadOld has the same limit.
const OLD_MS: u64 = 300_000;
/// The most destinations whose oldest message one call reads to find slow ones. It reads those with the longest
/// backlogs.
const OLD_MAX: usize = 20;
/// The time between two checks whether anybody takes messages. A worker takes its next message sooner.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The number of messages that a worker or consumer could take, if nobody holds any.
pub(super) fn untaken(entry: &CatalogEntry, stats: &Stats) -> u64 {
    let is_pulled = entry.destination.delivery.kind == DeliveryKind::Pull;
    let waits_for_worker = entry.claimers() == Claimers::Worker && !entry.paused.processing;
    match stats {
        Stats { waiting, processing: 0, .. } if waits_for_worker && *waiting > 0 => *waiting,
        Stats { ready, delivering: 0, .. } if is_pulled && !entry.paused.delivery => *ready,
        _ => 0,
    }
}

impl Store {
    /// When the oldest head arrived, for each destination whose messages nobody takes. A worker that is between two
    /// messages holds none, so this checks twice.
    pub(super) async fn untaken_since(
        &self,
        pending: &[(&CatalogEntry, &Stats)],
    ) -> BTreeMap<DestinationName, u64> {
        let mut some = pending.to_vec();
        some.retain(|(entry, stats)| untaken(entry, stats) > 0);
        some.sort_by_key(|(entry, stats)| Reverse(untaken(entry, stats)));
        some.truncate(UNTAKEN_MAX);
        let found = self.heads_that_stay(some, |entry, _| self.untaken_head(entry)).await;
        let since = |(name, head): (&DestinationName, Head)| (name.clone(), since(&head));
        found.into_iter().map(since).collect()
    }

    /// Adds `slow` to destinations that have an old head and no other problem. A message with a long delay is already
    /// old when it is due, and leaves at once, so this checks twice.
    pub(super) async fn add_slow(
        &self,
        all: &[(&CatalogEntry, &Stats)],
        found: &mut [Vec<Attention>],
    ) {
        let moving = |stats: &Stats| stats.pending.saturating_sub(stats.delayed);
        let unsuspicious = all.iter().zip(found.iter()).filter(|(_, found)| found.is_empty());
        let mut some: Vec<_> = unsuspicious.map(|(one, _)| *one).collect();
        some.retain(|(_, stats)| moving(stats) > 0);
        some.sort_by_key(|(_, stats)| Reverse(moving(stats)));
        some.truncate(OLD_MAX);
        let heads = self.heads_that_stay(some, |entry, stats| self.old_head(entry, stats)).await;
        for ((entry, stats), found) in all.iter().zip(found) {
            if let Some(head) = heads.get(&entry.destination.name) {
                let (count, since) = (moving(stats), Some(since(head)));
                found.push(Attention { cause: Trouble::Slow, count, since, error: None });
            }
        }
    }

    /// The heads that `look` finds in these destinations now, and finds again shortly afterwards.
    async fn heads_that_stay<'a, L: Future<Output = Option<Head>>>(
        &self,
        some: Vec<(&'a CatalogEntry, &'a Stats)>,
        look: impl Fn(&'a CatalogEntry, &'a Stats) -> L,
    ) -> HashMap<&'a DestinationName, Head> {
        let before = join_all(some.iter().map(|(entry, stats)| look(entry, stats))).await;
        let found = some.into_iter().zip(before);
        let before: Vec<_> = found.filter_map(|(one, head)| Some((one, head?))).collect();
        if before.is_empty() {
            return HashMap::new();
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        let after = join_all(before.iter().map(|((entry, stats), _)| look(entry, stats))).await;
        let stays =
            |(((entry, _), before), after): (((&'a CatalogEntry, _), Head), Option<Head>)| {
                let head = after.filter(|head| head.sequence == before.sequence)?;
                Some((&entry.destination.name, head))
            };
        before.into_iter().zip(after).filter_map(stays).collect()
    }

    /// The oldest head, if it has waited too long for a worker or a consumer.
    async fn untaken_head(&self, entry: &CatalogEntry) -> Option<Head> {
        let head = self.heads(entry, true).await.ok()?.into_iter().next()?;
        let is_free = matches!(head.state, State::Waiting | State::Ready);
        let is_untaken = is_free && head.age_ms >= UNTAKEN_MS;
        // Workers ask for messages, but get none because of the rate.
        let transform = &entry.destination.transform;
        let is_slowed = is_untaken
            && transform.rate_per_second_max > 0
            && transform
                .next_attempt_ms(self.granted_until_us(entry).await.ok()?)
                .is_some_and(|at_ms| at_ms + UNTAKEN_MS > server_clock_ms());
        (is_untaken && !is_slowed).then_some(head)
    }

    /// The oldest head, if it is old and waits neither for its delay nor for the rate of its destination.
    async fn old_head(&self, entry: &CatalogEntry, stats: &Stats) -> Option<Head> {
        let head = self.heads(entry, stats.delivering > 0).await.ok()?.into_iter().next()?;
        let destination = &entry.destination;
        let has_rate = match head.state {
            State::Waiting => destination.transform.rate_per_second_max > 0,
            State::Ready => destination.delivery.rate_per_second_max > 0,
            _ => false,
        };
        (head.age_ms >= OLD_MS && head.state != State::Delayed && !has_rate).then_some(head)
    }
}

/// When this head arrived, in ms since 1970.
fn since(head: &Head) -> u64 {
    server_clock_ms().saturating_sub(head.age_ms)
}
