//! Finds and repairs contradictions between a destination's sets and records (`lua/repair.lua`,
//! `lua/repair_keys.lua`, `lua/repair_traces.lua`, `lua/repair_counters.lua`).
//!
//! The sets are read page by page while messages come and go, so a page is only a hint. The script
//! checks each message again, atomically, and decides.

mod pages;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Store, StoreError,
    calls::unexpected,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
    record,
    rows::LaneRow,
};
use domain::{Ordering, Sequence, TransformKind};
use pages::Bits;

row! {
    /// A message to check.
    RepairedMessage {
        /// The number of its lane, from 1; 0: no lane holds it.
        lane: usize,
        sequence: Sequence,
        /// Some of `w` (it was seen waiting), `f` (its processing is finished), `u<length>;` (its record of that length
        /// cannot be read), `l<position>,<position>;` (the whole waiting list was read again for it, and this is where it
        /// was seen, counted from the end: -1 is the last; none: nowhere).
        flags: String,
    }
}

contract! {
    repair
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, messages, attempts, leases, delayed, halted,
        withdrawals, dead_letters, dead_letter_messages, dead_lettered_at, bodies, log, releasable,
        lanes, active_builtin, active_worker, wake_waiting, wake_releasable, withdrawn, withdrawing,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        ordering: &'a str,
        processing: &'a str,
        /// `1`, or empty: only to report.
        repairs: &'a str,
    }
    lists {
        lanes: LaneRow<'a>,
        messages: RepairedMessage,
    }
}

/// The most messages of one call.
const MESSAGES_MAX: usize = 200;

/// The most passes: a repair may reveal more to repair.
const PASSES_MAX: usize = 4;

/// How many examples of each kind are listed.
const EXAMPLES_MAX: usize = 5;

/// The most messages to rebuild for lanes whose `in-progress` has another type.
const REBUILT_MAX: usize = 20_000;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repair {
    /// False if the counters changed on every pass, so that they could not be compared.
    pub counters_verified: bool,
    /// What it found, by kind.
    pub items: Vec<Found>,
}

impl Repair {
    /// How many problems it found.
    pub fn matched(&self) -> u64 {
        self.items.iter().map(|item| item.matched).sum()
    }

    /// How many of them were repaired.
    pub fn affected(&self) -> u64 {
        self.items.iter().map(|item| item.affected).sum()
    }
}

/// The problems of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Found {
    /// The kind.
    pub kind: String,
    /// What it means, and what the repair does.
    pub detail: String,
    /// How many were found.
    pub matched: u64,
    /// How many of them were repaired.
    pub affected: u64,
    /// Sequences, keys of Redis or names of counters.
    pub examples: Vec<String>,
}

/// The meaning of each kind, and what the repair does about it.
const KINDS: [(&str, &str); 10] = [
    ("wrong_type", "keys of another type; removed, and built again from what there is"),
    ("no_lane", "records in no lane; they become dead letters, or are removed if unreadable"),
    ("damaged", "pending messages without a whole record and body; their lanes are halted"),
    ("nowhere", "pending messages in no state; they return to the state they had"),
    ("twice", "messages in two states; they keep the later one"),
    ("left_over", "traces of messages that are gone; removed"),
    ("body", "bodies that no message, dead letter or log entry names; removed"),
    ("dead_letter", "dead letters that are listed but missing, or the reverse"),
    ("hint", "lanes or messages without a hint, which no poll would find; the hint is added"),
    ("counter", "counters that differ from the actual count; corrected"),
];

/// Called before each call with how many problems were found and repaired so far. False: stop.
pub type GoesOn<'a> = dyn Fn(u64, u64) -> bool + Send + Sync + 'a;

/// A message to check: its lane (`None` if the lane is unknown), and what the caller knows.
#[derive(Debug, Clone)]
struct Item {
    lane: Option<Option<String>>,
    sequence: Sequence,
    flags: String,
}

/// A kind, what it is about, and whether it was repaired.
pub(super) type Finding = (String, String, bool);

/// A repair in progress.
pub(super) struct Repairing<'a> {
    pub(super) store: &'a Store,
    pub(super) entry: &'a CatalogEntry,
    pub(super) keys: DestinationKeys,
    pub(super) dry_run: bool,
    pub(super) goes_on: &'a GoesOn<'a>,
    pub(super) repaired: BTreeMap<String, (u64, Vec<String>)>,
    /// Found in this pass and not repaired.
    pub(super) left: BTreeMap<String, (u64, Vec<String>)>,
    pub(super) has_repaired: bool,
    /// Sequences that were checked, and those that were seen waiting.
    seen: Bits,
    waiting: Bits,
    /// Messages to check again with their position in the waiting list, because it matters.
    to_look_for: HashMap<Sequence, Item>,
    /// Unreadable records whose lane is not known yet, with their lengths.
    pub(super) unread: HashMap<Sequence, usize>,
    pub(super) wrong_lanes: BTreeSet<Option<String>>,
    /// Pending, ready, halted and ready, awaiting turn, bytes.
    pub(super) sums: [u64; 5],
    pub(super) delayed: u64,
}

impl Store {
    /// Compares a destination's sets and records and repairs contradictions; with `dry_run` it only
    /// reports them.
    pub async fn repair(
        &self,
        entry: &CatalogEntry,
        dry_run: bool,
        goes_on: &GoesOn<'_>,
    ) -> Result<Repair, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut repairing = Repairing {
            store: self,
            entry,
            keys,
            dry_run,
            goes_on,
            repaired: BTreeMap::new(),
            left: BTreeMap::new(),
            has_repaired: false,
            seen: Bits::default(),
            waiting: Bits::default(),
            to_look_for: HashMap::new(),
            unread: HashMap::new(),
            wrong_lanes: BTreeSet::new(),
            sums: [0; 5],
            delayed: 0,
        };
        let mut counters_verified = false;
        for _ in 0..PASSES_MAX {
            let before = repairing.counters().await?;
            if !repairing.pass().await? {
                break;
            }
            if !repairing.has_repaired {
                counters_verified = repairing.compare_counters(&before).await?;
                if counters_verified {
                    break;
                }
            }
        }
        Ok(repairing.told(counters_verified))
    }
}

impl Repairing<'_> {
    /// Compares everything once. False if a key has another type and is not repaired: then the
    /// comparison cannot continue.
    async fn pass(&mut self) -> Result<bool, StoreError> {
        self.left.clear();
        self.has_repaired = false;
        (self.seen, self.waiting) = (Bits::default(), Bits::default());
        (self.sums, self.delayed) = ([0; 5], 0);
        self.to_look_for.clear();
        self.unread.clear();
        self.wrong_lanes.clear();
        self.check_keys(None, &[]).await?;
        if self.left.contains_key("wrong_type") {
            return Ok(false);
        }
        self.waiting = self.list_waiting().await?;
        self.messages(Vec::new()).await?;
        self.scan_records().await?;
        self.scan_lanes().await?;
        self.scan_strays().await?;
        self.rebuild_lanes().await?;
        self.look_for_listed().await?;
        self.scan_letters().await?;
        self.scan_bodies().await?;
        Ok(true)
    }

    /// Reports the progress before each call. An error if the repair must stop.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        let count = |kinds: &BTreeMap<String, (u64, Vec<String>)>| -> u64 {
            kinds.values().map(|(count, _)| count).sum()
        };
        let repaired = count(&self.repaired);
        match (self.goes_on)(repaired + count(&self.left), repaired) {
            true => Ok(()),
            false => Err(StoreError::Unavailable("the repair was stopped".into())),
        }
    }

    pub(super) fn repairs(&self) -> &'static str {
        if self.dry_run { "" } else { "1" }
    }

    /// Checks some messages. Returns how many were checked, and the sums.
    async fn run(
        &mut self,
        lanes: &[Option<String>],
        messages: Vec<RepairedMessage>,
    ) -> Result<(usize, Vec<u64>), StoreError> {
        self.begin()?;
        let (keys, entry) = (self.keys.clone(), self.entry);
        let call = Args {
            destination: entry.destination.name.as_str(),
            version: entry.version,
            ordering: entry.ordering_text(),
            processing: entry.processing_text(),
            repairs: self.repairs(),
            lanes: lanes.iter().map(|lane| LaneRow::of(&keys, lane.as_deref())).collect(),
            messages,
        }
        .call(self.store, &keys);
        let (looked_at, findings, sums): (String, Vec<Finding>, Vec<u64>) =
            self.store.run(&call).await?;
        self.note_all(findings, lanes);
        Ok((looked_at.parse().map_err(|_| unexpected("repair"))?, sums))
    }

    pub(super) fn note_all(&mut self, findings: Vec<Finding>, lanes: &[Option<String>]) {
        for (kind, what, is_repaired) in findings {
            self.note(kind, what, is_repaired, lanes);
        }
    }

    fn note(&mut self, kind: String, what: String, is_repaired: bool, lanes: &[Option<String>]) {
        if kind == "wrong_lane" {
            let is_it = |lane: &&Option<String>| lane.as_deref().unwrap_or_default() == what;
            self.wrong_lanes.extend(lanes.iter().find(is_it).cloned());
            return;
        }
        self.has_repaired |= is_repaired;
        let notes = if is_repaired { &mut self.repaired } else { &mut self.left };
        let (count, examples) = notes.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(what);
        }
    }

    /// Checks messages and adds them to the sums.
    async fn messages(&mut self, items: Vec<Item>) -> Result<(), StoreError> {
        let sums = self.look_at(items).await?;
        for (sum, more) in self.sums.iter_mut().zip(sums) {
            *sum += more;
        }
        Ok(())
    }

    /// Checks messages in batches; returns the sums.
    async fn look_at(&mut self, items: Vec<Item>) -> Result<[u64; 5], StoreError> {
        let (mut rest, mut all) = (&items[..], [0; 5]);
        loop {
            let some = &rest[..rest.len().min(MESSAGES_MAX)];
            let (mut lanes, mut messages) = (Vec::new(), Vec::new());
            let mut index = HashMap::new();
            for item in some {
                let number = item.lane.as_ref().map_or(0, |lane| {
                    *index.entry(lane).or_insert_with(|| {
                        lanes.push(lane.clone());
                        lanes.len()
                    })
                });
                messages.push(RepairedMessage {
                    lane: number,
                    sequence: item.sequence,
                    flags: item.flags.clone(),
                });
            }
            let (looked_at, sums) = self.run(&lanes, messages).await?;
            for (sum, more) in all.iter_mut().zip(&sums) {
                *sum += more;
            }
            for sequence in sums.iter().skip(5) {
                let item = some.iter().find(|item| item.sequence == *sequence);
                self.to_look_for.extend(item.map(|item| (*sequence, item.clone())));
            }
            if looked_at == 0 && !some.is_empty() {
                return Err(unexpected("repair"));
            }
            rest = &rest[looked_at.min(some.len())..];
            if rest.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Reads what a record says about its message: lane and flags. No lane if that needs its key
    /// and the key is unreadable.
    fn item_of(&self, sequence: Sequence, bytes: Bytes) -> Item {
        let destination = &self.entry.destination;
        let length = bytes.len();
        let mut flags = String::new();
        if self.waiting.has(sequence) {
            flags.push('w');
        }
        let lane = match record::read(bytes, &destination.name, sequence, Default::default()) {
            // A tombstone of an unreadable message has only its position; its key is unknown.
            Ok(message) if message.damaged.is_some() => self.lane_unknown(),
            Ok(message) => {
                let is_finished = message.processed.is_some()
                    || destination.transform.kind == TransformKind::None;
                if is_finished {
                    flags.push('f');
                }
                Some(destination.lane_key(message.message.key.as_deref()).map(str::to_owned))
            }
            Err(_) => {
                flags.push_str(&format!("u{length};"));
                self.lane_unknown()
            }
        };
        Item { lane, sequence, flags }
    }

    /// The lane of a message whose record is unreadable: known only if the destination is one lane.
    fn lane_unknown(&self) -> Option<Option<String>> {
        (self.entry.destination.ordering != Ordering::Key).then_some(None)
    }

    fn told(self, counters_verified: bool) -> Repair {
        let mut repair = Repair { counters_verified, ..Repair::default() };
        for (kind, detail) in KINDS {
            let (affected, mut examples) = self.repaired.get(kind).cloned().unwrap_or_default();
            let (left, others) = self.left.get(kind).cloned().unwrap_or_default();
            examples.extend(others);
            examples.truncate(EXAMPLES_MAX);
            let matched = affected + left;
            if matched > 0 {
                let (kind, detail) = (kind.to_owned(), detail.to_owned());
                repair.items.push(Found { kind, detail, matched, affected, examples });
            }
        }
        repair
    }
}
