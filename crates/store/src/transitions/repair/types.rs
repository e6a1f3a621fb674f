//! Finds keys that have the wrong type. Removes the keys that can be built again, and reports the others.

use std::collections::BTreeMap;

use super::{Repairing, lanes::PAGE};
use crate::{StoreError, key_types};
use domain::Ordering;

impl Repairing<'_> {
    /// The keys of the destination and of its partition: first the keys that are derived from records, then the keys
    /// with data that is stored nowhere else.
    fn typed_keys(&self) -> (Vec<String>, Vec<String>) {
        let keys = &self.keys;
        let derived = [
            keys.waiting(),
            keys.withdrawn(),
            keys.log_order(),
            keys.leases(),
            keys.delayed(),
            keys.releasable(),
            keys.active_builtin(),
            keys.active_worker(),
            keys.withdrawing(),
            keys.consumers(),
            keys.consumer_lease_ends(),
            keys.halted(),
            keys.dead_letters(),
            keys.dead_lettered_at(),
            keys.lanes(),
            keys.ids(),
            keys.previous(),
        ];
        let lost = [
            keys.messages(),
            keys.bodies(),
            keys.attempts(),
            keys.withdrawals(),
            keys.dead_letter_messages(),
            keys.log(),
            keys.idempotency_keys(),
            keys.sources(),
            keys.consumer_leases(),
        ];
        (derived.into(), lost.into())
    }

    /// Removes derived keys that have the wrong type. False if a key with the wrong type stays.
    pub(super) async fn check_types(&mut self) -> Result<bool, StoreError> {
        let (derived, lost) = self.typed_keys();
        let lost = self.wrong_types(&lost).await?;
        let mut wrong = self.wrong_types(&derived).await?;
        let (mut lanes, mut cursor) = (BTreeMap::new(), 0);
        loop {
            let sets = self.lane_sets(&mut cursor).await?;
            let typed: Vec<String> = sets.iter().map(|(_, key)| key.clone()).collect();
            for key in self.wrong_types(&typed).await? {
                let is_lane = |lane: &Option<String>| self.keys.in_progress(lane.as_deref()) == key;
                match sets.iter().find(|(lane, _)| is_lane(lane)) {
                    Some((lane, _)) => drop(lanes.insert(lane.clone(), key)),
                    None => wrong.push(key),
                }
            }
            if cursor == 0 {
                break;
            }
        }
        let stays = !lost.is_empty() || self.dry_run && wrong.len() + lanes.len() > 0;
        if lost.is_empty() {
            self.rebuild_lanes(&lanes).await?;
        }
        lost.into_iter().for_each(|key| self.note("lost_key", key, false));
        lanes.into_values().for_each(|key| self.note("wrong_type", key, !stays));
        for key in wrong {
            let mut pipe = redis::pipe();
            pipe.unlink(&key);
            if key == self.keys.previous() {
                // Without this key, the last sequences of earlier lanes are unknown.
                pipe.hdel(self.keys.hash(), "all_keys_known");
            }
            self.write(&pipe).await?;
            self.note("wrong_type", key, !self.dry_run);
        }
        Ok(!stays)
    }

    /// Returns the keys that have the wrong type.
    async fn wrong_types(&self, keys: &[String]) -> Result<Vec<String>, StoreError> {
        let mut wrong = Vec::new();
        for some in keys.chunks(PAGE) {
            self.begin()?;
            let mut pipe = redis::pipe();
            for key in some {
                pipe.cmd("TYPE").arg(key);
            }
            let kinds: Vec<String> = self.store.query(&pipe).await?;
            let each = some.iter().zip(kinds);
            wrong.extend(
                each.filter(|(key, kind)| !self.fits(key, kind)).map(|(key, _)| key.clone()),
            );
        }
        Ok(wrong)
    }

    fn fits(&self, key: &str, kind: &str) -> bool {
        // The definition decides which of its two possible types `waiting` must have.
        let wrong_for_waiting =
            if self.entry.destination.ordering == Ordering::None { "list" } else { "zset" };
        key_types::fits(self.store.keys(), key, kind)
            && !(kind == wrong_for_waiting && key == self.keys.waiting())
    }

    /// Builds the set `in-progress` of each of these lanes under another key, and renames it when it is complete:
    /// with an incomplete set, later messages could leave before earlier ones.
    async fn rebuild_lanes(
        &self,
        lanes: &BTreeMap<Option<String>, String>,
    ) -> Result<(), StoreError> {
        let rebuilt = |lane: &Option<String>| self.keys.rebuilt(lane.as_deref());
        for lane in lanes.keys() {
            self.write(redis::pipe().unlink(rebuilt(lane))).await?;
        }
        let mut cursor = 0;
        while !lanes.is_empty() {
            let mut pipe = redis::pipe();
            for item in self.records(&mut cursor).await? {
                if let Some(lane) = item.lane.filter(|lane| lanes.contains_key(lane)) {
                    pipe.zadd(rebuilt(&lane), item.sequence, item.sequence);
                }
            }
            self.write(&pipe).await?;
            if cursor == 0 {
                break;
            }
        }
        for (lane, key) in lanes {
            let has_any: bool = self.query(redis::pipe().exists(rebuilt(lane))).await?;
            let mut pipe = redis::pipe();
            match has_any {
                true => pipe.rename(rebuilt(lane), key),
                false => pipe.unlink(key),
            };
            self.write(&pipe).await?;
        }
        Ok(())
    }
}
