//! Reads the records of a destination and the sets of its lanes, page by page.

use std::collections::HashMap;

use bytes::Bytes;
use redis::{FromRedisValue, Pipeline};

use super::{Item, Repairing, number};
use crate::StoreError;
use domain::{Ordering, Sequence};

/// The approximate number of elements that one call reads.
pub(in crate::transitions) const PAGE: usize = 1000;
/// The approximate number of records, or of other values that may be long, that one call reads.
pub(super) const LONG_VALUES: usize = 100;

impl Repairing<'_> {
    /// Checks all messages that have a record. Returns the messages whose lane depends on an ordering key that cannot
    /// be read.
    pub(super) async fn check_records(&mut self) -> Result<HashMap<Sequence, Item>, StoreError> {
        let mut unread = HashMap::new();
        let mut cursor = 0;
        loop {
            let items = self.records(&mut cursor).await?;
            let readable = items.iter().filter(|item| !item.is_unreadable);
            self.pass.highest =
                readable.fold(self.pass.highest, |top, item| top.max(item.sequence));
            let (known, unknown): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|item| item.lane.is_some());
            unread.extend(unknown.into_iter().map(|item| (item.sequence, item)));
            self.check(known).await?;
            if cursor == 0 {
                return Ok(unread);
            }
        }
    }

    /// Reads one page of records.
    pub(super) async fn records(&self, cursor: &mut u64) -> Result<Vec<Item>, StoreError> {
        let key = self.keys.messages();
        let found: Vec<(Bytes, Bytes)> = self.scan("HSCAN", &key, cursor, LONG_VALUES).await?;
        let items = found.into_iter();
        Ok(items
            .filter_map(|(field, record)| Some(self.item_of(number(&field)?, record)))
            .collect())
    }

    /// Checks the messages in the sets of lanes, then the unreadable records that are in no set.
    pub(super) async fn check_lanes(
        &mut self,
        mut unread: HashMap<Sequence, Item>,
    ) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            for (lane, key) in self.lane_sets(&mut cursor).await? {
                self.check_lane(lane, &key, &mut unread).await?;
            }
            if cursor == 0 {
                break;
            }
        }
        self.check(unread.into_values().collect()).await
    }

    /// Reads one page of the sets of all lanes, each with its lane. May return a set twice.
    pub(super) async fn lane_sets(
        &self,
        cursor: &mut u64,
    ) -> Result<Vec<(Option<String>, String)>, StoreError> {
        if self.entry.destination.ordering != Ordering::Key {
            return Ok(vec![(None, self.keys.in_progress(None)), (None, self.keys.ready(None))]);
        }
        let (next, found) = self.store.scan_keys(&self.keys, *cursor).await?;
        *cursor = next;
        let lane_of = |key: &Bytes| {
            let noun = std::str::from_utf8(self.keys.noun_of(key)?).ok()?;
            let lane = noun.strip_prefix("in-progress:").or_else(|| noun.strip_prefix("ready:"))?;
            Some((Some(lane.to_owned()), String::from_utf8(key.to_vec()).ok()?))
        };
        Ok(found.iter().filter_map(lane_of).collect())
    }

    async fn check_lane(
        &mut self,
        lane: Option<String>,
        key: &str,
        unread: &mut HashMap<Sequence, Item>,
    ) -> Result<(), StoreError> {
        let mut from = "-inf".to_owned();
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("ZRANGEBYSCORE").arg(key).arg(&from).arg("+inf");
            pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(PAGE);
            let found: Vec<(Bytes, f64)> = self.query(&pipe).await?;
            let sequences = found.iter().filter_map(|(member, _)| number(member));
            let items = sequences.map(|sequence| Item {
                lane: Some(lane.clone()),
                ..unread.remove(&sequence).unwrap_or_else(|| Item::stray(sequence))
            });
            let items = items.collect();
            self.check(items).await?;
            match found.last() {
                Some((_, last)) if found.len() == PAGE => from = format!("({last}"),
                _ => return Ok(()),
            }
        }
    }

    /// Checks other data that is stored by sequence, to find traces of messages that are gone.
    pub(super) async fn check_strays(&mut self) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        for (command, key) in
            [("ZSCAN", keys.halted()), ("HSCAN", keys.withdrawals()), ("HSCAN", keys.attempts())]
        {
            let mut cursor = 0;
            loop {
                let found: Vec<(Bytes, Bytes)> =
                    self.scan(command, &key, &mut cursor, LONG_VALUES).await?;
                let sequences = found.iter().filter_map(|(member, _)| number(member));
                self.check(sequences.map(Item::stray).collect()).await?;
                if cursor == 0 {
                    break;
                }
            }
        }
        let delayed: Vec<Item> = self.pass.delayed.all().map(Item::stray).collect();
        self.check(delayed).await
    }

    /// Reads one page of a scan. Sets the cursor to 0 at the end.
    pub(in crate::transitions) async fn scan<T: FromRedisValue>(
        &self,
        command: &str,
        key: &str,
        cursor: &mut u64,
        count: usize,
    ) -> Result<Vec<T>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd(command).arg(key).arg(*cursor).arg("COUNT").arg(count);
        let (next, page): (u64, Vec<T>) = self.query(&pipe).await?;
        *cursor = next;
        Ok(page)
    }

    /// Returns the answer to a single command.
    pub(in crate::transitions) async fn query<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Result<T, StoreError> {
        self.begin()?;
        let (answer,): (T,) = self.store.query(pipe).await?;
        Ok(answer)
    }

    /// Runs commands that write, except in a dry run.
    pub(super) async fn write(&self, pipe: &Pipeline) -> Result<(), StoreError> {
        self.begin()?;
        if !self.dry_run && pipe.cmd_iter().next().is_some() {
            self.store.query::<redis::Value>(pipe).await?;
        }
        Ok(())
    }
}
