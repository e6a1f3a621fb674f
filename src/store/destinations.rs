//! Making, changing and removing destinations (`lua/define.lua`, `lua/index.lua`,
//! `lua/remove.lua`, `lua/remove_batch.lua`, `lua/forget.lua`).
//!
//! The partition holds the true definition, because the scripts that check it run there. The index
//! of all destinations follows; a pod that dies in between leaves an index that any pod mends when
//! the partition refuses what it knows.

use bytes::Bytes;
use redis::Pipeline;

use super::{
    CatalogEntry, Claimers, Paused, Store, StoreError, index::REMOVED_MAX, keys::DestinationKeys,
    record,
};
use crate::domain::{Destination, DestinationName, Epoch, Ordering, Processing, TransformKind};

/// The most messages that are removed_messages in one call.
const PURGE_MAX: usize = 500;

/// How many keys one look for what is left over passes, about.
const SCAN: usize = 1000;

/// Above all versions: a number that Lua still holds exactly.
const VERSION_MAX: u64 = 1 << 53;

/// What defining a destination did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defined {
    /// The definition's version.
    pub version: u64,
    /// False if it was the same before.
    pub changed: bool,
    /// True if there was no such destination.
    pub created: bool,
    /// The epoch that it was born in.
    pub born: Epoch,
}

/// What removing a destination did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Messages that were pending and are gone.
    pub removed_messages: u64,
}

/// What of a destination stands in keys of its partition.
#[derive(Debug, Clone, Copy)]
enum RemovedMembers {
    Leases,
    Delayed,
}

/// The ordering, as the scripts spell it.
pub(super) fn ordering_text(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Destination => "destination",
        Ordering::Key => "key",
        Ordering::None => "none",
    }
}

/// How many of a lane are processed at a time, as the scripts spell it.
pub(super) fn processing_text(processing: Processing) -> &'static str {
    match processing {
        Processing::Parallel => "parallel",
        Processing::Serial => "serial",
    }
}

/// Who may claim messages of a destination with this transform.
pub(super) fn claimers_of(kind: TransformKind) -> Claimers {
    match kind {
        TransformKind::Worker => Claimers::Worker,
        TransformKind::None | TransformKind::Http | TransformKind::Jq | TransformKind::Native => {
            Claimers::Builtin
        }
    }
}

impl Store {
    /// Makes a destination or changes its definition, and tells all pods.
    pub async fn define(&self, destination: &Destination) -> Result<Defined, StoreError> {
        let keys = self.keys().destination(&destination.name);
        self.check_durability(destination.durability, &keys.hash()).await?;
        let definition = serde_json::to_string(destination)
            .map_err(|error| StoreError::WrongState(error.to_string()))?;
        let claimers = claimers_of(destination.transform.kind);
        let (name, mut call) = self.script(|scripts| &scripts.define);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.waiting());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.withdrawn());
        call.key(keys.previous());
        call.arg(destination.name.as_str()).arg(&definition);
        call.arg(ordering_text(destination.ordering)).arg(claimers.as_str());
        let partition = destination.name.partition(self.keys().partitions());
        call.arg(self.known_of_epoch(partition)).arg(processing_text(destination.processing));
        call.arg(destination.transform.attempts_max).arg(destination.transform.stalls_max);
        let answer = self.run(name, &call).await?;
        let (version, changed, created, paused, born): (u64, bool, bool, String, u64) = answer;
        self.inner.epochs.note_carried(partition, born);
        let paused = Paused::of_text(&paused);
        let noted = self.index(&destination.name, version, Some((paused, born, &definition)));
        noted.await.map_err(StoreError::half_way)?;
        Ok(Defined { version, changed, created, born })
    }

    /// Removes a destination; with `purge`, although messages are pending. May be repeated until
    /// it succeeds.
    pub async fn remove(
        &self,
        destination: &DestinationName,
        purge: bool,
    ) -> Result<Removed, StoreError> {
        let keys = self.keys().destination(destination);
        let (name, mut call) = self.script(|scripts| &scripts.remove);
        call.key(keys.hash()).key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.releasable());
        call.key(keys.dead_letters()).key(keys.partition.epoch());
        call.arg(destination.as_str()).arg(u8::from(purge));
        let (version, removed_messages): (u64, u64) = match self.run(name, &call).await {
            // A removal that broke off just before its end leaves only the index to mend.
            Err(StoreError::UnknownDestination) => {
                self.index(destination, VERSION_MAX, None).await?;
                return Err(StoreError::UnknownDestination);
            }
            answer => answer?,
        };

        self.remove_messages(destination, version, removed_messages)
            .await
            .map_err(StoreError::half_way)?;
        Ok(Removed { removed_messages })
    }

    /// Ends a removal that has begun, of a destination with so many pending messages.
    async fn remove_messages(
        &self,
        destination: &DestinationName,
        version: u64,
        pending: u64,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        // Nothing is claimed any more, and a lease can only become a delay: leases first.
        self.remove_members(destination, RemovedMembers::Leases).await?;
        self.remove_members(destination, RemovedMembers::Delayed).await?;
        let removed = self.remove_lanes(destination).await?;
        // Lanes are known from records, which may be damaged or, after a removal that broke off, gone.
        // So where there were messages, lanes are looked for by their names too. The look passes all
        // keys of Redis, which is too dear for a destination that was empty.
        if pending > 0 || removed > 0 {
            self.remove_left_over(destination).await?;
        }
        let (name, mut call) = self.script(|scripts| &scripts.forget);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.attempts()).key(keys.lanes());
        call.key(keys.in_progress(None)).key(keys.ready(None));
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.releasable());
        call.key(keys.halted()).key(keys.withdrawals()).key(keys.idempotency_keys());
        call.key(keys.dead_letters())
            .key(keys.dead_letter_messages())
            .key(keys.log())
            .key(keys.log_order());
        call.key(keys.bodies()).key(keys.dead_lettered_at()).key(keys.withdrawn());
        call.key(keys.previous());
        let partition = destination.partition(self.keys().partitions());
        call.arg(self.known_of_epoch(partition)).arg(destination.as_str());
        let epoch: u64 = self.run(name, &call).await?;
        self.inner.epochs.note_carried(partition, epoch);
        self.index(destination, version, None).await
    }

    /// Removes a destination's leases or delays, some at a time.
    async fn remove_members(
        &self,
        destination: &DestinationName,
        of: RemovedMembers,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let (key, is_lease) = match of {
            RemovedMembers::Leases => (keys.partition.leases(), true),
            RemovedMembers::Delayed => (keys.partition.delayed(), false),
        };
        let mut cursor = 0u64;
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("ZSCAN").arg(&key).arg(cursor);
            pipe.arg("MATCH").arg(format!("{destination}/*")).arg("COUNT").arg(PURGE_MAX);
            let ((next, found),): ((u64, Vec<(String, f64)>),) = self.query(&pipe).await?;
            for batch in found.chunks(PURGE_MAX) {
                let (name, mut call) = self.script(|scripts| &scripts.remove_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(0).arg(if is_lease { batch.len() } else { 0 });
                for (member, _) in batch {
                    call.arg(member);
                }
                self.run::<u64>(name, &call).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Removes pending messages, and their lanes where lanes are keys, some at a time. Tells how many
    /// messages these were.
    async fn remove_lanes(&self, destination: &DestinationName) -> Result<u64, StoreError> {
        let keys = self.keys().destination(destination);
        let mut pipe = redis::pipe();
        pipe.cmd("TYPE").arg(keys.messages());
        let (kind,): (String,) = self.query(&pipe).await?;
        if kind != "hash" {
            return Ok(0);
        }
        let (mut cursor, mut removed) = (0u64, 0);
        loop {
            let mut pipe = redis::pipe();
            pipe.cmd("HSCAN").arg(keys.messages()).arg(cursor).arg("COUNT").arg(PURGE_MAX);
            let ((next, found),): ((u64, Vec<(Bytes, Bytes)>),) = self.query(&pipe).await?;
            for batch in found.chunks(PURGE_MAX) {
                let (name, mut call) = self.script(|scripts| &scripts.remove_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(batch.len()).arg(0);
                let mut lanes = std::collections::BTreeSet::new();
                for (field, bytes) in batch {
                    call.arg(&field[..]);
                    let message = record::read(bytes.clone(), destination, 0, Default::default());
                    lanes.insert(message.ok().and_then(|message| message.message.key));
                }
                for lane in lanes.iter().map(|lane| lane.as_deref().unwrap_or_default()) {
                    call.key(keys.in_progress(Some(lane))).key(keys.ready(Some(lane)));
                }
                removed += self.run::<u64>(name, &call).await?;
            }
            if next == 0 {
                return Ok(removed);
            }
            cursor = next;
        }
    }

    /// Removes whatever else is there of a destination, whatever its type: lanes that no record names.
    /// Idempotency keys stay until they expire.
    async fn remove_left_over(&self, destination: &DestinationName) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let mut cursor = 0u64;
        loop {
            let (next, found) = self.scan_keys(&keys, cursor).await?;
            let is_lane = |key: &&Bytes| {
                keys.noun_of(key).is_some_and(|noun| !noun.starts_with(b"idempotency:"))
            };
            let left_over: Vec<&Bytes> = found.iter().filter(is_lane).collect();
            for batch in left_over.chunks(PURGE_MAX) {
                let (name, mut call) = self.script(|scripts| &scripts.remove_batch);
                call.key(keys.hash()).key(keys.messages());
                call.key(keys.partition.leases()).key(keys.partition.delayed());
                call.key(keys.partition.epoch());
                call.arg(0).arg(0);
                for key in batch {
                    call.key(&key[..]);
                }
                self.run::<u64>(name, &call).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Some of the keys of a destination, and where to go on: 0 after the last. Looks at the node that
    /// holds its partition.
    pub(super) async fn scan_keys(
        &self,
        keys: &DestinationKeys,
        cursor: u64,
    ) -> Result<(u64, Vec<Bytes>), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(keys.pattern()).arg("COUNT").arg(SCAN);
        let (page,): ((u64, Vec<Bytes>),) = self.query_at(keys.hash().as_bytes(), &pipe).await?;
        Ok(page)
    }

    /// Notes a definition, or its end, in the index of all destinations, unless newer is noted.
    pub(super) async fn index(
        &self,
        name: &DestinationName,
        version: u64,
        definition: Option<(Paused, Epoch, &str)>,
    ) -> Result<(), StoreError> {
        let noted = definition.map_or_else(String::new, |(paused, born, json)| {
            format!("{version} {} {json}", paused.mark(born))
        });
        let (transition, mut call) = self.script(|scripts| &scripts.index);
        let index = self.keys().destinations();
        call.key(index.hash()).key(index.changes()).key(index.removed());
        call.arg(name.as_str()).arg(version).arg(noted).arg(self.keys().wake_definitions());
        call.arg(REMOVED_MAX);
        self.run::<u64>(transition, &call).await?;
        Ok(())
    }

    /// Reads an entry of the index: `<version> <what is paused, or ->,@<born> <definition>`.
    pub(super) fn known_of_entry(&self, name: &str, entry: &str) -> Option<CatalogEntry> {
        let mut parts = entry.splitn(3, ' ');
        let (version, mark, json) = (parts.next()?, parts.next()?, parts.next()?);
        let (paused, born) = Paused::of_mark(mark);
        self.known(name, version, paused, born?, json)
    }

    /// The definition that the partition holds, which is the true one; the index is mended.
    pub(super) async fn true_definition(
        &self,
        name: &DestinationName,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.hmget(keys.hash(), &["version", "definition", "deleted", "paused", "born"]);
        type Text = Option<String>;
        type StoredDefinition = (Text, Text, Text, Text, Option<Epoch>);
        let ((version, definition, deleted, paused, born),): (StoredDefinition,) =
            self.query(&pipe).await?;
        let (Some(version), Some(json), None) = (version, definition, deleted) else {
            return Ok(None);
        };
        let paused = Paused::of_text(paused.as_deref().unwrap_or_default());
        let known = self.known(name.as_str(), &version, paused, born.unwrap_or_default(), &json);
        if let Some(known) = &known {
            self.index(name, known.version, Some((paused, known.born, &json))).await?;
        }
        Ok(known)
    }

    fn known(
        &self,
        name: &str,
        version: &str,
        paused: Paused,
        born: Epoch,
        json: &str,
    ) -> Option<CatalogEntry> {
        let definition = serde_json::from_str::<Destination>(json);
        match (definition, version.parse()) {
            (Ok(destination), Ok(version)) => {
                let partition = destination.name.partition(self.keys().partitions());
                self.inner.epochs.note_carried(partition, born);
                Some(CatalogEntry { destination, version, partition, paused, born })
            }
            (Err(error), _) => {
                tracing::error!(destination = name, %error, "a stored definition cannot be read");
                None
            }
            (_, Err(_)) => None,
        }
    }
}
