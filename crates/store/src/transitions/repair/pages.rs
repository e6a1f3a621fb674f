//! Reads the sets of a destination page by page.

use std::collections::HashMap;

use bytes::Bytes;
use redis::FromRedisValue;

use super::{Item, REBUILT_MAX, Repairing};
use crate::StoreError;
use domain::{Ordering, Sequence};

/// About how many elements one call reads.
const PAGE: usize = 1000;
/// About how many records one call reads.
const RECORDS: usize = 200;
/// About how many long values one call reads: checkpoints and errors.
const LONG_VALUES: usize = 100;
/// How many positions in the list are passed on for one message.
const PLACES_MAX: usize = 4;

/// A set of sequences, most of them close together.
#[derive(Debug, Default)]
pub(super) struct Bits(HashMap<u64, u64>);

impl Bits {
    /// Adds one. True if it is new.
    pub(super) fn insert(&mut self, sequence: Sequence) -> bool {
        let word = self.0.entry(sequence / 64).or_default();
        let bit = 1 << (sequence % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(super) fn has(&self, sequence: Sequence) -> bool {
        self.0.get(&(sequence / 64)).is_some_and(|word| word & (1 << (sequence % 64)) != 0)
    }

    fn all(&self) -> impl Iterator<Item = Sequence> + '_ {
        let of_word = |(&at, &word): (&u64, &u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        };
        self.0.iter().flat_map(of_word)
    }
}

impl Repairing<'_> {
    /// The waiting messages. A list is read from its end: claims remove from its front, and what is
    /// added at the end is at worst read twice.
    pub(super) async fn list_waiting(&self) -> Result<Bits, StoreError> {
        let mut waiting = Bits::default();
        if self.entry.destination.ordering == Ordering::None {
            let mut cursor = 0;
            loop {
                let (next, found) =
                    self.scan::<(Bytes, f64)>("ZSCAN", &self.keys.waiting(), cursor, PAGE).await?;
                found.iter().filter_map(|(member, _)| number(member)).for_each(|sequence| {
                    waiting.insert(sequence);
                });
                cursor = next;
                if cursor == 0 {
                    return Ok(waiting);
                }
            }
        }
        let mut end = -1;
        loop {
            let found = self.waiting_before(end).await?;
            found.iter().filter_map(number).for_each(|sequence| {
                waiting.insert(sequence);
            });
            if found.len() < PAGE {
                return Ok(waiting);
            }
            end -= PAGE as isize;
        }
    }

    /// Checks all messages that have a record.
    pub(super) async fn scan_records(&mut self) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            let (next, items) = self.records(cursor).await?;
            let mut in_lanes = Vec::new();
            for item in items {
                if item.lane.is_none() {
                    let length = item.flags.trim_start_matches('w').trim_matches(['u', ';']);
                    self.unread.insert(item.sequence, length.parse().unwrap_or_default());
                } else if self.seen.insert(item.sequence) {
                    in_lanes.push(item);
                }
            }
            self.messages(in_lanes).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// One page of records.
    async fn records(&self, cursor: u64) -> Result<(u64, Vec<Item>), StoreError> {
        let (next, found) =
            self.scan::<(Bytes, Bytes)>("HSCAN", &self.keys.messages(), cursor, RECORDS).await?;
        let items = found.into_iter();
        let items = items.filter_map(|(field, record)| Some(self.item_of(number(&field)?, record)));
        Ok((next, items.collect()))
    }

    /// Checks the remaining messages that lanes hold.
    pub(super) async fn scan_lanes(&mut self) -> Result<(), StoreError> {
        if self.entry.destination.ordering != Ordering::Key {
            for key in [self.keys.in_progress(None), self.keys.ready(None)] {
                self.scan_lane(None, &key).await?;
            }
        } else {
            let mut cursor = 0;
            loop {
                let (next, found) = self.store.scan_keys(&self.keys, cursor).await?;
                for key in &found {
                    let noun =
                        self.keys.noun_of(key).and_then(|noun| std::str::from_utf8(noun).ok());
                    let lane = noun.and_then(|noun| {
                        noun.strip_prefix("in-progress:").or_else(|| noun.strip_prefix("ready:"))
                    });
                    if let (Some(lane), Ok(key)) = (lane, std::str::from_utf8(key)) {
                        self.scan_lane(Some(lane.to_owned()), key).await?;
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        // Unreadable records that no lane holds.
        let unread = std::mem::take(&mut self.unread).into_iter();
        let unread = unread.filter(|(sequence, _)| !self.seen.has(*sequence));
        let item = |(sequence, length)| Item { lane: None, sequence, flags: format!("u{length};") };
        self.messages(unread.map(item).collect()).await
    }

    async fn scan_lane(&mut self, lane: Option<String>, key: &str) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("TYPE").arg(key);
        let (kind,): (String,) = self.store.query(&pipe).await?;
        if kind != "zset" {
            if kind != "none" {
                self.run(&[lane], Vec::new()).await?;
            }
            return Ok(());
        }
        let mut from = "-inf".to_owned();
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("ZRANGEBYSCORE").arg(key).arg(&from).arg("+inf");
            pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(PAGE);
            let (found,): (Vec<(Bytes, f64)>,) = self.store.query(&pipe).await?;
            let mut items = Vec::new();
            for sequence in found.iter().filter_map(|(member, _)| number(member)) {
                if self.seen.insert(sequence) {
                    let waits = if self.waiting.has(sequence) { "w" } else { "" };
                    let unread = self.unread.get(&sequence).map(|length| format!("u{length};"));
                    let flags = format!("{waits}{}", unread.unwrap_or_default());
                    items.push(Item { lane: Some(lane.clone()), sequence, flags });
                }
            }
            self.messages(items).await?;
            match found.last() {
                Some((_, last)) if found.len() == PAGE => from = format!("({last}"),
                _ => return Ok(()),
            }
        }
    }

    /// Finds traces of messages that no lane holds and that have no record.
    pub(super) async fn scan_strays(&mut self) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        for (command, key) in
            [("ZSCAN", keys.halted()), ("HSCAN", keys.withdrawals()), ("HSCAN", keys.attempts())]
        {
            let mut cursor = 0;
            loop {
                let (next, found) =
                    self.scan::<(Bytes, Bytes)>(command, &key, cursor, LONG_VALUES).await?;
                self.strays(found.iter().filter_map(|(member, _)| number(member))).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        let prefix = format!("{}/", self.entry.destination.name);
        let mut counted = Bits::default();
        for (key, is_lease) in [(keys.partition.delayed(), false), (keys.partition.leases(), true)]
        {
            let mut cursor = 0;
            loop {
                let mut pipe = redis::pipe();
                pipe.cmd("ZSCAN").arg(&key).arg(cursor).arg("MATCH").arg(format!("{prefix}*"));
                pipe.arg("COUNT").arg(PAGE);
                let ((next, found),): ((u64, Vec<(String, f64)>),) =
                    self.store.query(&pipe).await?;
                let sequence_of = |member: &str| -> Option<Sequence> {
                    member.strip_prefix(&prefix)?.split('/').next()?.parse().ok()
                };
                let sequences = found.iter().filter_map(|(member, _)| sequence_of(member));
                if is_lease {
                    let is_stray =
                        |member: &String| sequence_of(member).is_some_and(|s| !self.seen.has(s));
                    let members: Vec<String> =
                        found.iter().map(|(m, _)| m).filter(|m| is_stray(m)).cloned().collect();
                    for some in members.chunks(RECORDS) {
                        self.check_traces("leases", some).await?;
                    }
                } else {
                    for sequence in sequences.clone() {
                        self.delayed += u64::from(counted.insert(sequence));
                    }
                    self.strays(sequences).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn strays(
        &mut self,
        sequences: impl Iterator<Item = Sequence>,
    ) -> Result<(), StoreError> {
        let lane = self.lane_unknown();
        let sequences = sequences.filter(|sequence| self.seen.insert(*sequence));
        let item = |sequence| Item { lane: lane.clone(), sequence, flags: String::new() };
        let items: Vec<Item> = sequences.map(item).collect();
        if items.is_empty() { Ok(()) } else { self.messages(items).await }
    }

    /// Rebuilds `in-progress` of lanes in which it has another type.
    pub(super) async fn rebuild_lanes(&mut self) -> Result<(), StoreError> {
        let wrong = std::mem::take(&mut self.wrong_lanes);
        if wrong.is_empty() {
            return Ok(());
        }
        let mut sequences: HashMap<Option<String>, Vec<String>> = HashMap::new();
        let (mut cursor, mut count) = (0, 0);
        loop {
            let (next, items) = self.records(cursor).await?;
            for item in items {
                if let Some(lane) = item.lane.filter(|lane| wrong.contains(lane)) {
                    count += 1;
                    sequences.entry(lane).or_default().push(item.sequence.to_string());
                }
            }
            cursor = next;
            if cursor == 0 || count > REBUILT_MAX {
                break;
            }
        }
        for lane in wrong {
            let of_lane = sequences.remove(&lane).unwrap_or_default();
            if count > REBUILT_MAX {
                let key = self.keys.in_progress(lane.as_deref());
                self.note("wrong_type".into(), key, false, &[]);
            } else {
                self.check_keys(Some(&lane), &of_lane).await?;
            }
        }
        Ok(())
    }

    /// Checks again messages for which it matters whether they wait: those in another state or
    /// gone, most of which moved on after the list was read, and those in no state. A long list is
    /// read in pages; the script gets the positions at which each message was seen.
    pub(super) async fn look_for_listed(&mut self) -> Result<(), StoreError> {
        let mut wanted = std::mem::take(&mut self.to_look_for);
        let gone: Vec<_> = self.waiting.all().filter(|one| !self.seen.has(*one)).collect();
        if wanted.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let lane = self.lane_unknown();
        for sequence in &gone {
            let item = Item { lane: lane.clone(), sequence: *sequence, flags: String::new() };
            wanted.entry(*sequence).or_insert(item);
        }
        let places = self.places_of(&wanted).await?;
        // A message that is gone and has left the list is correct.
        gone.iter().filter(|one| !places.contains_key(one)).for_each(|one| {
            wanted.remove(one);
        });
        let items = wanted.into_values().map(|item| {
            let places = places.get(&item.sequence).map(Vec::as_slice).unwrap_or_default();
            let places: Vec<String> = places.iter().map(isize::to_string).collect();
            let flags = format!("{}l{};", item.flags.replace('w', ""), places.join(","));
            Item { flags, ..item }
        });
        // The sums already include them.
        self.look_at(items.collect()).await.map(drop)
    }

    /// The positions of these in the waiting list, counted from its end: -1 is the last.
    async fn places_of(
        &self,
        wanted: &HashMap<Sequence, Item>,
    ) -> Result<HashMap<Sequence, Vec<isize>>, StoreError> {
        let mut places: HashMap<Sequence, Vec<isize>> = HashMap::new();
        if self.entry.destination.ordering == Ordering::None {
            let still = self.list_waiting().await?;
            places.extend(wanted.keys().filter(|one| still.has(**one)).map(|one| (*one, vec![-1])));
            return Ok(places);
        }
        let mut end = -1;
        loop {
            let found = self.waiting_before(end).await?;
            for (before, sequence) in found.iter().rev().enumerate() {
                let Some(sequence) = number(sequence).filter(|one| wanted.contains_key(one)) else {
                    continue;
                };
                let of_it = places.entry(sequence).or_default();
                if of_it.len() < PLACES_MAX {
                    of_it.push(end - before as isize);
                }
            }
            if found.len() < PAGE {
                return Ok(places);
            }
            end -= PAGE as isize;
        }
    }

    /// A page of the waiting list that ends at this position, counted from the end.
    async fn waiting_before(&self, end: isize) -> Result<Vec<Bytes>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.lrange(self.keys.waiting(), end - PAGE as isize + 1, end);
        let (found,): (Vec<Bytes>,) = self.store.query(&pipe).await?;
        Ok(found)
    }

    /// Checks dead letters.
    pub(super) async fn scan_letters(&mut self) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        let mut seen = Bits::default();
        for (command, key) in [
            ("HSCAN", keys.dead_letter_messages()),
            ("ZSCAN", keys.dead_letters()),
            ("ZSCAN", keys.dead_lettered_at()),
        ] {
            let mut cursor = 0;
            loop {
                let (next, found) =
                    self.scan::<(Bytes, Bytes)>(command, &key, cursor, RECORDS).await?;
                let letters = found.iter().filter_map(|(member, _)| number(member));
                let letters: Vec<String> =
                    letters.filter(|s| seen.insert(*s)).map(|s| s.to_string()).collect();
                for some in letters.chunks(RECORDS) {
                    self.check_traces("letters", some).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks bodies, which the script does not return.
    pub(super) async fn scan_bodies(&mut self) -> Result<(), StoreError> {
        let mut cursor = "0".to_owned();
        loop {
            cursor = self.check_traces("bodies", &[cursor]).await?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn scan<T: FromRedisValue>(
        &self,
        command: &str,
        key: &str,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<T>), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd(command).arg(key).arg(cursor).arg("COUNT").arg(count);
        let (page,): ((u64, Vec<T>),) = self.store.query(&pipe).await?;
        Ok(page)
    }
}

/// Parses a sequence. Leading zeros mark a placeholder that a repair wrote, not a sequence.
fn number(text: &Bytes) -> Option<Sequence> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('0'))?;
    text.parse().ok()
}
