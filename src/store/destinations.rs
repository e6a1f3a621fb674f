//! Creates, changes and removes destinations (`lua/define.lua`, `lua/index.lua`, `lua/remove.lua`,
//! `lua/remove_batch.lua`, `lua/forget.lua`).
//!
//! The partition's definition decides, because the scripts that check it run there. The index of
//! all destinations follows. If a pod dies in between, the index is outdated until the partition
//! refuses a pod with `STALE_DEFINITION`; that pod then corrects it.

use bytes::Bytes;
use redis::Pipeline;

use super::{
    CatalogEntry, Claimers, Paused, Store, StoreError, index::REMOVED_MAX, keys::DestinationKeys,
    record,
};
use crate::domain::{Destination, DestinationName, Epoch, Ordering, Processing, TransformKind};

/// The most messages that one call removes.
const PURGE_MAX: usize = 500;

/// About how many keys one `SCAN` call covers.
const SCAN: usize = 1000;

/// Above all versions, and still exact as a number in Lua.
const VERSION_MAX: u64 = 1 << 53;

/// The result of defining a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defined {
    /// The definition's version.
    pub version: u64,
    /// False if the definition was the same before.
    pub changed: bool,
    /// True if the destination is new.
    pub created: bool,
    /// The epoch in which the destination was created.
    pub born: Epoch,
}

/// The result of removing a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Pending messages that were removed.
    pub removed_messages: u64,
}

/// Which of the partition's keys to remove a destination's members from.
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

/// The processing mode, as the scripts spell it.
pub(super) fn processing_text(processing: Processing) -> &'static str {
    match processing {
        Processing::Parallel => "parallel",
        Processing::Serial => "serial",
    }
}

/// Which processors may claim messages of a destination with this transform.
pub(super) fn claimers_of(kind: TransformKind) -> Claimers {
    match kind {
        TransformKind::Worker => Claimers::Worker,
        TransformKind::None | TransformKind::Http | TransformKind::Jq | TransformKind::Native => {
            Claimers::Builtin
        }
    }
}

impl Store {
    /// Creates or changes a destination, and notifies all pods.
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

    /// Removes a destination; with `purge`, even if messages are pending. Repeat the call until it
    /// succeeds.
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
            // An earlier removal may have stopped just before its end: only the index is left to
            // correct.
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

    /// Completes a removal. `pending` is how many messages the destination had.
    async fn remove_messages(
        &self,
        destination: &DestinationName,
        version: u64,
        pending: u64,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        // Leases first: nothing is claimed any more, but a lease can still become a delay.
        self.remove_members(destination, RemovedMembers::Leases).await?;
        self.remove_members(destination, RemovedMembers::Delayed).await?;
        let removed = self.remove_lanes(destination).await?;
        // Lanes are found through records, which may be damaged, or gone after an interrupted
        // removal. So if there were messages, scan for lanes by name too. The scan covers all keys
        // of the server: too expensive for a destination that was empty.
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

    /// Removes a destination's leases or delays, in batches.
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

    /// Removes pending messages and, where lanes are keys, their lanes, in batches. Returns how
    /// many messages there were.
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

    /// Removes all remaining keys of a destination, whatever their type, such as lanes that no
    /// record names. Idempotency keys stay until they expire.
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

    /// Some keys of a destination, and the next cursor (0 at the end). Scans the node of its
    /// partition.
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

    /// Writes a definition, or its removal, to the index of all destinations, unless the index has
    /// a newer one.
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

    /// Parses an index entry: `<version> <paused, or ->,@<born> <definition>`.
    pub(super) fn known_of_entry(&self, name: &str, entry: &str) -> Option<CatalogEntry> {
        let mut parts = entry.splitn(3, ' ');
        let (version, mark, json) = (parts.next()?, parts.next()?, parts.next()?);
        let (paused, born) = Paused::of_mark(mark);
        self.known(name, version, paused, born?, json)
    }

    /// Reads the definition from the partition, and corrects the index.
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
