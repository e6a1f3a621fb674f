//! Finds and repairs contradictions between the records of a paused destination and the data that is derived from
//! them (`lua/repair.lua`).
//!
//! A pass reads all data of the destination page by page. While the destination is paused, only operators and the
//! ends of leases and delays change it. If such a change confuses a pass, the next pass corrects the result. A repair
//! ends with a pass that finds no problem.

mod derived;
pub(super) mod lanes;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Store, StoreError,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
    record,
    rows::LaneRow,
};
use domain::{Ordering, Sequence};

row! {
    /// A message to check.
    RepairedMessage {
        /// The number of the message's lane, from 1; 0: the message is in no lane.
        lane: usize,
        sequence: Sequence,
        /// The message's record cannot be read.
        is_unreadable: bool,
        /// The message's record is the output of its processing.
        is_processed: bool,
        is_leased: bool,
    }
}

contract! {
    repair
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), messages, attempts, bodies, delayed, halted, withdrawals,
        withdrawing, dead_letters, dead_letter_messages, dead_lettered_at, releasable, lanes,
        wake_releasable,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        ordering: &'a str,
        processing: &'a str,
        /// False: only report problems.
        repairs: bool,
    }
    lists {
        lanes: LaneRow<'a>,
        messages: RepairedMessage,
    }
}

/// The most messages of one call.
const MESSAGES_MAX: usize = 200;
/// The most passes. A repair may reveal further problems.
const PASSES_MAX: usize = 4;
/// The most examples that are listed per kind.
const EXAMPLES_MAX: usize = 5;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repair {
    /// False if data changed during every pass, so that the counters could not be compared.
    pub counters_verified: bool,
    /// The problems found, by kind.
    pub items: Vec<Found>,
}

impl Repair {
    /// The number of problems found.
    pub fn matched(&self) -> u64 {
        self.items.iter().map(|item| item.matched).sum()
    }

    /// The number of problems repaired.
    pub fn affected(&self) -> u64 {
        self.items.iter().map(|item| item.affected).sum()
    }
}

/// The problems of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Found {
    /// The kind of the problems.
    pub kind: String,
    /// What the kind means, and what the repair does about it.
    pub detail: String,
    /// The number of problems found.
    pub matched: u64,
    /// The number of problems repaired.
    pub affected: u64,
    /// Examples: sequences, Redis keys or names of counters.
    pub examples: Vec<String>,
}

/// The meaning of each kind, and what the repair does about it.
const KINDS: [(&str, &str); 10] = [
    (
        "lost_key",
        "keys of another type that hold what nothing else does; restore or delete them yourself",
    ),
    ("wrong_type", "keys of another type; removed, and built again from the records"),
    ("no_lane", "records in no lane; they become dead letters, or are removed if unreadable"),
    ("damaged", "pending messages without a whole record and body; their lanes are halted"),
    ("nowhere", "pending messages in no state; they return to the state they had"),
    ("twice", "messages in two states; they keep the later one"),
    ("left_over", "traces of messages that are gone; removed"),
    ("dead_letter", "dead letters that are listed but missing, or the reverse"),
    ("hint", "lanes or messages without a hint, which no poll would find; the hint is added"),
    ("counter", "counters that differ from the actual count; corrected"),
];

/// Called before each call to Redis, with the numbers of problems found and repaired so far. If it returns false, the
/// repair stops.
pub type GoesOn<'a> = dyn Fn(u64, u64) -> bool + Send + Sync + 'a;

/// For each finding: its kind, its subject, and whether it was repaired.
pub(super) type Findings = Vec<(String, String, bool)>;

/// A message to check.
#[derive(Debug, Clone)]
struct Item {
    /// `None`: the message is in no lane.
    lane: Option<Option<String>>,
    sequence: Sequence,
    is_unreadable: bool,
    is_processed: bool,
}

impl Item {
    fn stray(sequence: Sequence) -> Item {
        Item { lane: None, sequence, is_unreadable: false, is_processed: false }
    }
}

/// A repair in progress.
pub(super) struct Repairing<'a> {
    pub(super) store: &'a Store,
    pub(super) entry: &'a CatalogEntry,
    pub(super) keys: DestinationKeys,
    pub(super) dry_run: bool,
    goes_on: &'a GoesOn<'a>,
    found: BTreeMap<String, Found>,
    pub(super) pass: Pass,
}

/// The state of one pass.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) has_repaired: bool,
    /// The messages that this pass has checked.
    pub(super) seen: Bits,
    /// The messages that were being processed when the pass began. While the destination is paused, processing of
    /// other messages does not begin.
    pub(super) leased: Bits,
    /// The messages that were delayed when the pass began.
    pub(super) delayed: Bits,
    /// `waiting`: messages that must be in the list or set `waiting`. `damaged`: messages that must not be in it.
    pub(super) waiting: Bits,
    pub(super) damaged: Bits,
    /// The sums over all messages: pending, ready, halted and ready, awaiting turn, bytes, delayed.
    pub(super) sums: [u64; 6],
    /// The highest sequence of a readable record.
    pub(super) highest: Sequence,
}

/// A set of sequences, most of them close together.
#[derive(Debug, Default)]
pub(super) struct Bits(BTreeMap<u64, u64>);

impl Bits {
    /// Adds a sequence. True if it is new.
    pub(super) fn insert(&mut self, sequence: Sequence) -> bool {
        let word = self.0.entry(sequence / 64).or_default();
        let bit = 1 << (sequence % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(super) fn of(sequences: impl IntoIterator<Item = Sequence>) -> Bits {
        let mut bits = Bits::default();
        bits.extend(sequences);
        bits
    }

    fn extend(&mut self, sequences: impl IntoIterator<Item = Sequence>) {
        for sequence in sequences {
            self.insert(sequence);
        }
    }

    pub(super) fn has(&self, sequence: Sequence) -> bool {
        self.0.get(&(sequence / 64)).is_some_and(|word| word & (1 << (sequence % 64)) != 0)
    }

    /// All sequences, lowest first.
    pub(super) fn all(&self) -> impl Iterator<Item = Sequence> + '_ {
        let of_word = |(&at, &word): (&u64, &u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        };
        self.0.iter().flat_map(of_word)
    }
}

impl Store {
    /// Compares the records of a paused destination with the data that is derived from them, and repairs
    /// contradictions. With `dry_run`, only reports them.
    pub async fn repair(
        &self,
        entry: &CatalogEntry,
        dry_run: bool,
        goes_on: &GoesOn<'_>,
    ) -> Result<Repair, StoreError> {
        let keys = self.keys_of(entry);
        let (found, pass) = (BTreeMap::new(), Pass::default());
        let mut repairing = Repairing { store: self, entry, keys, dry_run, goes_on, found, pass };
        let mut counters_verified = false;
        for _ in 0..PASSES_MAX {
            let Some(is_done) = repairing.compare().await? else { break };
            counters_verified = is_done;
            if is_done {
                break;
            }
        }
        let kinds = KINDS.iter().filter_map(|(kind, detail)| {
            Some(Found { detail: (*detail).to_owned(), ..repairing.found.remove(*kind)? })
        });
        Ok(Repair { counters_verified, items: kinds.collect() })
    }
}

impl Repairing<'_> {
    /// Compares all data once. Returns true if no further pass is needed; `None` if a key with the wrong type stays.
    async fn compare(&mut self) -> Result<Option<bool>, StoreError> {
        self.pass = Pass::default();
        self.found.retain(|_, found| found.affected > 0);
        self.found.values_mut().for_each(|found| found.matched = found.affected);
        // Checks that the definition is current: only a current ordering tells which types are right.
        self.call(&[]).await?;
        if !self.check_types().await? {
            return Ok(None);
        }
        let leases = self.leases().await?;
        self.pass.leased = Bits::of(leases.iter().map(|(sequence, _)| *sequence));
        let before = self.counters().await?;
        self.read_delayed().await?;
        let unread = self.check_records().await?;
        self.check_lanes(unread).await?;
        self.check_leases(leases).await?;
        self.check_strays().await?;
        self.check_waiting(before.last()).await?;
        self.check_letters().await?;
        self.renew_consumer_hints().await?;
        Ok(Some(!self.pass.has_repaired && self.check_counters(&before).await?))
    }

    /// Reports the progress before a call. Returns an error if the repair must stop.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        let sum = |count: fn(&Found) -> u64| self.found.values().map(count).sum();
        match (self.goes_on)(sum(|found| found.matched), sum(|found| found.affected)) {
            true => Ok(()),
            false => Err(StoreError::Unavailable("the repair was stopped".into())),
        }
    }

    pub(super) fn note(&mut self, kind: &str, what: String, is_repaired: bool) {
        self.pass.has_repaired |= is_repaired;
        let kind = kind.to_owned();
        let new = || Found { kind: kind.clone(), ..Found::default() };
        let found = self.found.entry(kind.clone()).or_insert_with(new);
        found.matched += 1;
        found.affected += u64::from(is_repaired);
        if found.examples.len() < EXAMPLES_MAX && !found.examples.contains(&what) {
            found.examples.push(what);
        }
    }

    pub(super) fn note_all(&mut self, findings: Findings) {
        for (kind, what, is_repaired) in findings {
            self.note(&kind, what, is_repaired);
        }
    }

    /// Checks the messages that this pass has not checked yet.
    async fn check(&mut self, items: Vec<Item>) -> Result<(), StoreError> {
        let new = items.into_iter().filter(|item| self.pass.seen.insert(item.sequence));
        let new: Vec<Item> = new.collect();
        for some in new.chunks(MESSAGES_MAX) {
            self.call(some).await?;
        }
        Ok(())
    }

    async fn call(&mut self, items: &[Item]) -> Result<(), StoreError> {
        self.begin()?;
        let keys = self.keys.clone();
        let lanes: BTreeSet<_> = items.iter().filter_map(|item| item.lane.clone()).collect();
        let lanes: Vec<Option<String>> = lanes.into_iter().collect();
        let number = |lane: &Option<String>| lanes.binary_search(lane).map_or(0, |at| at + 1);
        let message = |item: &Item| RepairedMessage {
            lane: item.lane.as_ref().map_or(0, number),
            sequence: item.sequence,
            is_unreadable: item.is_unreadable,
            is_processed: item.is_processed,
            is_leased: self.pass.leased.has(item.sequence),
        };
        let call = Args {
            destination: self.entry.destination.name.as_str(),
            version: self.entry.version,
            ordering: self.entry.ordering_text(),
            processing: self.entry.processing_text(),
            repairs: !self.dry_run,
            lanes: lanes.iter().map(|lane| LaneRow::of(&keys, lane.as_deref())).collect(),
            messages: items.iter().map(message).collect(),
        }
        .call(self.store, &keys);
        type Answer = (Findings, [u64; 6], Vec<Sequence>, Vec<Sequence>);
        let (findings, sums, waiting, damaged): Answer = self.store.run(&call).await?;
        self.note_all(findings);
        self.pass.sums.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        self.pass.waiting.extend(waiting);
        self.pass.damaged.extend(damaged);
        Ok(())
    }

    /// Describes the message of a record. The lane is `None` if it depends on the ordering key, and the key cannot be
    /// read.
    fn item_of(&self, sequence: Sequence, bytes: Bytes) -> Item {
        let destination = &self.entry.destination;
        let read = record::read(bytes, &destination.name, sequence, Default::default());
        // If a tombstone is unreadable, only its position is known.
        let readable = read.as_ref().ok().filter(|message| message.damaged.is_none());
        let key = readable.map(|message| destination.lane_key(message.message.key.as_deref()));
        let lane = match key {
            Some(key) => Some(key.map(str::to_owned)),
            None => (destination.ordering != Ordering::Key).then_some(None),
        };
        Item {
            lane,
            sequence,
            is_unreadable: read.is_err(),
            is_processed: readable.is_some_and(|message| message.processed.is_some()),
        }
    }
}

/// Parses a sequence.
pub(super) fn number(text: &Bytes) -> Option<Sequence> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
