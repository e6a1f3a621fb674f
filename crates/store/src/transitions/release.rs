//! Settles messages that have left, and releases the messages that may leave next (`lua/release.lua`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use redis::Value;

use super::{
    acquire_partition::OwnerToken,
    withdraw::{PendingWithdrawal, read_pending},
};
use crate::{
    Store, StoreError, attempts,
    calls::unexpected,
    contract::{contract, row},
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
    log_entry::LogEntry,
    record::{self, Part},
    rows::LaneSets,
};
use domain::{
    AttemptError, ConsumerRefusal, DeliveryKind, Epoch, ErrorKind, Ordering, RELEASE_BATCH_MAX,
    Sequence, Stage, Stamped, Tombstone,
};
use redis_client::ScriptCall;

/// The most bytes of records that one call returns. It returns at least one record.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// The most pending withdrawals that one call returns, as in `lua/release.lua`.
pub const WITHDRAWALS_MAX: usize = 200;

/// The most messages that take the fast path, as in `lua/release_fast.lua`.
const FAST_MAX: usize = 32;

row! {
    /// A request to settle and release messages of one lane.
    RequestRow<'a> {
        /// The key of the lane; without ordering, the sequence.
        key: &'a str,
        /// The last settled sequence; 0: none.
        upto: Sequence,
        /// The accounted bytes of the settled messages. If any of them were tombstones, as in
        /// `lua/include/settle.lua`.
        accounted_bytes: String,
        /// The last sequence that the owner still holds; 0: none.
        held_upto: Sequence,
        /// The most messages to release.
        most: usize,
    }
}

row! {
    /// An entry for the log.
    LogRow {
        sequence: Sequence,
        entry: Vec<u8>,
    }
}

contract! {
    release
    keys(keys: &DestinationKeys) {
        epoch, owner, destination: keys.hash(), messages, attempts, releasable, lanes, withdrawals,
        idempotency_keys, log, log_order, halted, bodies, dead_letters, previous, consumer_leases,
        consumer_lease_ends, consumers, wake_releasable, withdrawing,
    }
    args<'a> {
        token: &'a str,
        /// The epoch that the owner knows.
        owner_epoch: Epoch,
        version: u64,
        destination: &'a str,
        ordering: &'a str,
        seen_epoch: String,
        /// The most bytes of records.
        bytes_max: usize,
        /// The most messages in the log.
        log_max: u64,
        /// The most messages of a lane whose head was refused before. At least one is returned.
        refused_max: usize,
        /// The most bytes of records and bodies of such a lane.
        refused_bytes_max: u64,
        /// The most ordering keys of empty lanes whose last sequence is remembered.
        previous_max: u64,
        /// The longest backoff.
        wait_max_ms: u64,
    }
    lists {
        /// The sets of each lane. Without ordering, one entry for all lanes.
        sets: LaneSets,
        lanes: RequestRow<'a>,
        log: LogRow,
        /// Fields of bodies stored out of line, to remove with the settled messages.
        bodies: &'a str,
        /// Idempotency keys to forget with the settled messages.
        idempotency_keys: &'a str,
    }
}

/// The identity of an owner that releases messages.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The owner's token.
    pub token: OwnerToken,
    /// The epoch that the owner knows.
    pub epoch: Epoch,
}

/// A request to settle and release messages of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRequest {
    /// The lane's key; `None` for the destination's only lane. Without ordering, each message is its own lane, and
    /// its sequence is the key.
    pub key: Option<String>,
    /// The messages that have left the lane since the last call.
    pub settled: Settled,
    /// The highest sequence that the owner holds and has not settled; 0: none.
    pub held_upto: Sequence,
    /// The most messages to return.
    pub limit: usize,
}

impl LaneRequest {
    /// True if the lane may take the fast path: the owner holds no other message of the lane, and few messages have
    /// left it.
    fn may_be_fast(&self) -> bool {
        let settled = &self.settled;
        self.held_upto == 0
            && self.limit > 0
            && settled.count <= FAST_MAX
            && settled.has_no_extras()
    }
}

/// Messages that have left a lane, and are not settled in Redis yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// All messages up to this sequence have left; 0: none since the last call.
    pub upto: Sequence,
    /// The number of messages that have left.
    pub count: usize,
    /// How many of them were tombstones of dropped messages, which were not delivered.
    pub dropped: u64,
    /// How many of them were tombstones of dead-lettered messages.
    pub dead_lettered: u64,
    /// How many of them were tombstones of cancelled messages.
    pub cancelled: u64,
    /// The sum of the accounted bytes of all these messages.
    pub bytes: u64,
    /// A log entry for each message, if the destination has a log.
    pub log: Vec<(Sequence, LogEntry)>,
    /// Fields in the hash `bodies` to remove: bodies stored out of line that are no longer needed.
    pub bodies: Vec<String>,
    /// The idempotency keys to remove with the messages.
    pub idempotency_keys: Vec<String>,
}

impl Settled {
    /// Adds a message that has left, with its log entry if there is one.
    pub fn add(&mut self, message: &Stamped, entry: Option<LogEntry>) {
        let sequence = message.position.sequence;
        self.upto = sequence;
        self.count += 1;
        match message.tombstone {
            None => {}
            Some(Tombstone::Dropped) => self.dropped += 1,
            Some(Tombstone::DeadLettered) => self.dead_lettered += 1,
            Some(Tombstone::Cancelled) => self.cancelled += 1,
        }
        self.bytes += message.accounted_bytes;
        self.idempotency_keys.extend(message.idempotency_key.clone());
        // If the log keeps bodies, it keeps one of these two; the script keeps the bodies of dead letters.
        let kept = entry.as_ref().and_then(LogEntry::part_kept);
        let out_of_line =
            [(Part::Body, message.out_of_line.body), (Part::Input, message.out_of_line.input)];
        let gone =
            out_of_line.iter().filter(|(part, length)| length.is_some() && kept != Some(*part));
        self.bodies.extend(gone.map(|(part, _)| part.field(sequence)));
        self.log.extend(entry.map(|entry| (sequence, entry)));
    }

    /// True if there are no tombstones, no bodies stored out of line and no idempotency keys. Few messages have
    /// these.
    pub(super) fn has_no_extras(&self) -> bool {
        let tombstones = self.dropped + self.dead_lettered + self.cancelled;
        tombstones == 0 && self.bodies.is_empty() && self.idempotency_keys.is_empty()
    }

    pub(super) fn log_rows(&self) -> impl Iterator<Item = LogRow> {
        self.log
            .iter()
            .map(|(sequence, entry)| LogRow { sequence: *sequence, entry: entry.encode() })
    }

    /// The accounted bytes as text. If there were tombstones, also the number of each kind.
    fn accounted_bytes(&self) -> String {
        let Settled { bytes, dropped, dead_lettered, cancelled, .. } = self;
        match dropped + dead_lettered + cancelled {
            0 => bytes.to_string(),
            _ => format!(
                "bytes={bytes};dropped={dropped};dead_lettered={dead_lettered};cancelled={cancelled};"
            ),
        }
    }
}

/// The answer to a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The pending withdrawals of the destination. If there are more than [`WITHDRAWALS_MAX`], only some of them.
    pub withdrawals: Vec<PendingWithdrawal>,
    /// The next run of each requested lane, in order.
    pub runs: Vec<LaneRun>,
}

/// The next run of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneRun {
    /// How long the owner must wait before it asks for this lane again: the head is in backoff, the lane did not fit
    /// into this answer, or it has too many messages to settle. 0: no wait.
    pub wait: Duration,
    /// The messages, in order. The first one carries its delivery attempts so far.
    pub messages: Vec<Stamped>,
    /// True if more messages have left the lane than one call can settle. Then the call settles and releases no
    /// message of the lane.
    pub is_too_long: bool,
}

impl Store {
    /// Settles messages that have left, and returns the next runs of lanes of one destination. If the receiver
    /// refused a lane's head before, the lane's run is limited to one delivery: the receiver may refuse the head
    /// again, and then Redis would have returned the messages behind it in vain.
    pub async fn release(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lanes: &[LaneRequest],
    ) -> Result<Released, StoreError> {
        match self.released_fast(owner, entry, lanes).await {
            Err(StoreError::NotFast) => {}
            answer => return answer,
        }
        self.released(&self.whole_release(owner, entry, lanes), entry).await
    }

    async fn released_fast(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lanes: &[LaneRequest],
    ) -> Result<Released, StoreError> {
        let destination = &entry.destination;
        match (destination.ordering, lanes) {
            _ if destination.delivery.kind == DeliveryKind::Pull => Err(StoreError::NotFast),
            (Ordering::None, lanes) => self.release_each_fast(owner, entry, lanes).await,
            (Ordering::Destination, [lane]) if lane.may_be_fast() => {
                self.released(&self.fast_release(owner, entry, lane), entry).await
            }
            _ => Err(StoreError::NotFast),
        }
    }

    /// The pending withdrawals of a destination, as a release returns them.
    pub async fn withdrawals(
        &self,
        entry: &CatalogEntry,
    ) -> Result<Vec<PendingWithdrawal>, StoreError> {
        let keys = self.keys_of(entry);
        let mut some = redis::cmd("HRANDFIELD");
        some.arg(keys.withdrawals()).arg(WITHDRAWALS_MAX).arg("WITHVALUES");
        let pending: Vec<(Sequence, Bytes)> = self.ask(&some).await?;
        Ok(pending.into_iter().filter_map(|one| read_pending(entry, one)).collect())
    }

    fn whole_release(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        lanes: &[LaneRequest],
    ) -> ScriptCall<'_> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        // Without ordering, all lanes share the same sets.
        let shared = if destination.ordering == Ordering::None { 1 } else { lanes.len() };
        let sets = lanes
            .iter()
            .take(shared)
            .map(|lane| LaneSets::of(&keys, set_key(entry, lane.key.as_deref())));
        let rows = lanes.iter().map(|lane| RequestRow {
            key: lane.key.as_deref().unwrap_or_default(),
            upto: lane.settled.upto,
            accounted_bytes: lane.settled.accounted_bytes(),
            held_upto: lane.held_upto,
            most: lane.limit.min(RELEASE_BATCH_MAX),
        });
        let settled = || lanes.iter().map(|lane| &lane.settled);
        let mut call = Args {
            token: owner.token.as_str(),
            owner_epoch: owner.epoch,
            version: entry.version,
            destination: destination.name.as_str(),
            ordering: entry.ordering_text(),
            seen_epoch: self.known_of_epoch(entry.partition),
            bytes_max: BYTES_MAX,
            log_max: destination.log_max,
            refused_max: destination.refused_max(),
            refused_bytes_max: destination.delivery.batch_bytes_max,
            previous_max: destination.previous_keys_max,
            wait_max_ms: destination.delivery.wait_max_ms(),
            sets: sets.collect(),
            lanes: rows.collect(),
            log: settled().flat_map(Settled::log_rows).collect(),
            bodies: settled().flat_map(|one| one.bodies.iter().map(String::as_str)).collect(),
            idempotency_keys: settled()
                .flat_map(|one| one.idempotency_keys.iter().map(String::as_str))
                .collect(),
        }
        .call(self, &keys);
        call.of_messages(settled().map(|one| one.count).sum::<usize>().max(lanes.len()));
        call
    }

    pub(super) async fn released(
        &self,
        call: &ScriptCall<'_>,
        entry: &CatalogEntry,
    ) -> Result<Released, StoreError> {
        let mut answer =
            self.learned(entry.partition, self.run::<Vec<Value>>(call).await)?.into_iter();
        let withdrawals = answer.next().ok_or_else(|| unexpected("release"))?;
        let withdrawals: Vec<(Sequence, Bytes)> =
            redis::from_redis_value(withdrawals).map_err(|_| unexpected("release"))?;
        let withdrawals =
            withdrawals.into_iter().filter_map(|one| read_pending(entry, one)).collect();
        let runs = answer.map(|lane| read_run(lane, entry)).collect::<Result<_, _>>()?;
        Ok(Released { withdrawals, runs })
    }
}

fn read_run(lane: Value, entry: &CatalogEntry) -> Result<LaneRun, StoreError> {
    let shape = |_| unexpected("release");
    let lane: Vec<Value> = redis::from_redis_value(lane).map_err(shape)?;
    let mut parts = lane.into_iter();
    let mut next = || parts.next().ok_or_else(|| unexpected("release"));
    let wait_ms: u64 = redis::from_redis_value(next()?).map_err(shape)?;
    let kept: Bytes = redis::from_redis_value(next()?).map_err(shape)?;
    let wait = Duration::from_millis(wait_ms);
    if *kept == *b"!" {
        return Ok(LaneRun { wait, is_too_long: true, ..LaneRun::default() });
    }
    let is_pulled = entry.destination.delivery.kind == DeliveryKind::Pull;
    let refusal = if is_pulled { read_refusal(next()?) } else { None };
    let mut of_first = Some(attempts::read(&kept));
    let mut messages = Vec::with_capacity(parts.len() / 2);
    while let (Some(sequence), Some(bytes)) = (parts.next(), parts.next()) {
        let sequence: Sequence = redis::from_redis_value(sequence).map_err(shape)?;
        let bytes: Bytes = redis::from_redis_value(bytes).map_err(shape)?;
        let body = match record::is_out_of_line(&bytes) {
            true => {
                let body = parts.next().ok_or_else(|| unexpected("release"))?;
                Some(redis::from_redis_value::<Bytes>(body).map_err(shape)?)
            }
            false => None,
        };
        let attempts = of_first.take().unwrap_or_default();
        let name = &entry.destination.name;
        let message = record::read_with(bytes, body, name, sequence, attempts.clone());
        // The run contains a damaged message, too: the owner delivers the messages before it, then halts it.
        let mut message = message.unwrap_or_else(|error| Stamped {
            attempts,
            ..Stamped::unreadable(name.clone(), sequence, error.to_string())
        });
        message.refused =
            refusal.as_ref().filter(|(of, _)| *of == sequence).map(|(_, refusal)| refusal.clone());
        messages.push(message);
    }
    Ok(LaneRun { wait, messages, is_too_long: false })
}

/// Reads which message of a run its consumer did not accept, and why.
fn read_refusal(refusal: Value) -> Option<(Sequence, Arc<ConsumerRefusal>)> {
    let (of, error, wait_ms, is_permanent): (Sequence, String, String, u8) =
        redis::from_redis_value(refusal).ok()?;
    let expired = || {
        let detail = "the consumer's lease expired before it accepted the message";
        AttemptError::new(Stage::Delivery, ErrorKind::Stalled, detail)
    };
    let refusal = ConsumerRefusal {
        error: serde_json::from_str(&error).unwrap_or_else(|_| expired()),
        retry_after: wait_ms.parse().ok().map(Duration::from_millis),
        is_permanent: is_permanent == 1,
    };
    Some((of, Arc::new(refusal)))
}
