//! What the owner of a partition may do: settle and release, postpone, halt (`lua/release.lua`,
//! `lua/postpone.lua`, `lua/halt.lua`).

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::{
    CatalogEntry, LogEntry, OwnerToken, Store, StoreError, ask, attempts,
    record::{self, Part},
    unexpected,
};
use crate::domain::{AttemptError, DestinationName, Epoch, Ordering, Sequence, Stamped, Tombstone};

/// The most bytes of records that one call hands out (one record is always handed out).
const BYTES_MAX: usize = 8 << 20;

/// How long a note of what is being delivered lasts, in seconds, unless it is renewed.
const DELIVERING_SECONDS: u64 = 3;

/// Who releases: the token of the ownership, and the epoch it was taken in.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The ownership's token.
    pub token: OwnerToken,
    /// The epoch that the owner knows.
    pub epoch: Epoch,
}

/// What to settle and release of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRequest {
    /// The lane's key; none for the destination's own lane. Where nothing is in order each message
    /// is a lane, and its sequence the key.
    pub key: Option<String>,
    /// What has left it since the last call.
    pub settled: Settled,
    /// The highest sequence that the owner holds and has not settled; 0: none.
    pub in_hand: Sequence,
    /// The most messages to hand out.
    pub want: usize,
}

/// What has left a lane, and Redis does not know it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Everything up to here has left; 0: nothing new.
    pub upto: Sequence,
    /// How many these are.
    pub count: usize,
    /// How many of these were not delivered, but passed as tombstones of each kind.
    pub dropped: u64,
    /// See `dropped`.
    pub dead_lettered: u64,
    /// See `dropped`.
    pub cancelled: u64,
    /// Their accounted bytes, together.
    pub bytes: u64,
    /// An entry for each, where the destination has a log.
    pub log: Vec<(Sequence, LogEntry)>,
    /// The fields of their bodies that are stored apart and not needed any more.
    pub bodies: Vec<String>,
    /// The idempotency keys that are forgotten with them.
    pub idempotency_keys: Vec<String>,
}

impl Settled {
    /// Adds a message that has left, with its entry for the log, if there is one.
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
        // The log keeps one of the bodies, if it holds bodies; the script keeps those of dead letters.
        let kept = entry.as_ref().and_then(LogEntry::part_kept);
        let apart = [(Part::Body, message.apart.body), (Part::Input, message.apart.input)];
        let gone = apart.iter().filter(|(part, length)| length.is_some() && kept != Some(*part));
        self.bodies.extend(gone.map(|(part, _)| part.field(sequence)));
        self.log.extend(entry.map(|entry| (sequence, entry)));
    }

    /// The accounted bytes, as a number; with tombstones, these and how many there were of each kind.
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
    /// How many withdrawals wait to be carried out at this destination (see [`Store::withdrawals`]).
    pub withdrawals: u64,
    /// The next run of each lane asked for, in order.
    pub runs: Vec<LaneRun>,
}

/// A lane's head that its receiver did not accept.
#[derive(Debug, Clone, Copy)]
pub struct RefusedHead<'a> {
    /// Its lane, as in [`LaneRequest::key`].
    pub lane: Option<&'a str>,
    /// The head.
    pub sequence: Sequence,
    /// Failed attempts at its delivery, with this one.
    pub failed: u32,
    /// What went wrong this time.
    pub error: &'a AttemptError,
}

/// The next run of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneRun {
    /// How long its head must still wait out a backoff.
    pub wait: Duration,
    /// The messages, in order. The first carries the attempts at its delivery so far.
    pub messages: Vec<Stamped>,
    /// What is wrong with the lane's keys, if they cannot be read: nothing is released then.
    pub error: Option<String>,
}

impl Store {
    /// Settles what was delivered and hands out the next runs of lanes of one destination. Of a lane
    /// whose head was refused before, no more than one delivery holds: what is behind it is not read
    /// each time that it is refused again.
    pub async fn release(
        &self,
        owner: &Owner,
        known: &CatalogEntry,
        lanes: &[LaneRequest],
    ) -> Result<Released, StoreError> {
        let name = &known.destination.name;
        let keys = self.keys().destination(name);
        let (transition, mut call) = self.script(|scripts| &scripts.release);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.hash());
        call.key(keys.messages()).key(keys.attempts()).key(keys.partition.releasable());
        call.key(keys.lanes()).key(keys.withdrawals()).key(keys.idempotency_keys());
        call.key(keys.log()).key(keys.log_order()).key(keys.halted());
        call.key(keys.bodies()).key(keys.dead_letters()).key(keys.previous());
        // Where nothing is in order all lanes stand in the same sets.
        let sets = if known.destination.ordering == Ordering::None { 1 } else { lanes.len() };
        for lane in lanes.iter().take(sets) {
            let key = set_key(known, lane.key.as_deref());
            call.key(keys.in_progress(key)).key(keys.ready(key));
        }
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(known.version).arg(name.as_str());
        call.arg(known.ordering_text()).arg(self.known_of_epoch(known.partition)).arg(BYTES_MAX);
        call.arg(known.destination.log_max).arg(lanes.len());
        call.arg(lanes.iter().map(|lane| lane.settled.log.len()).sum::<usize>());
        call.arg(lanes.iter().map(|lane| lane.settled.bodies.len()).sum::<usize>());
        call.arg(known.destination.refused_max()).arg(known.destination.delivery.batch_bytes_max);
        call.arg(known.destination.previous_keys_max);
        for lane in lanes {
            let settled = &lane.settled;
            call.arg(lane.key.as_deref().unwrap_or_default()).arg(settled.upto);
            call.arg(settled.accounted_bytes()).arg(lane.in_hand).arg(lane.want.min(1024));
        }
        for (sequence, entry) in lanes.iter().flat_map(|lane| &lane.settled.log) {
            call.arg(*sequence).arg(entry.encode());
        }
        for field in lanes.iter().flat_map(|lane| &lane.settled.bodies) {
            call.arg(field);
        }
        for key in lanes.iter().flat_map(|lane| &lane.settled.idempotency_keys) {
            call.arg(key);
        }
        let mut answer = self
            .learned(known.partition, self.run::<Vec<Value>>(transition, &call).await)?
            .into_iter();
        let withdrawals = answer.next().ok_or_else(|| unexpected("release"))?;
        let withdrawals =
            redis::from_redis_value(withdrawals).map_err(|_| unexpected("release"))?;
        let runs: Vec<LaneRun> =
            answer.map(|lane| read_run(lane, known)).collect::<Result<_, _>>()?;
        for (lane, _) in lanes.iter().zip(&runs).filter(|(_, run)| run.error.is_some()) {
            let set = set_key(known, lane.key.as_deref());
            let of_lane = vec![keys.in_progress(set), keys.ready(set)];
            self.note_damaged_keys(known, transition, of_lane);
        }
        Ok(Released { withdrawals, runs })
    }

    /// Has a lane's head, which the receiver did not accept, wait before it is tried again.
    pub async fn postpone(
        &self,
        owner: &Owner,
        known: &CatalogEntry,
        head: RefusedHead<'_>,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let name = &known.destination.name;
        let keys = self.keys().destination(name);
        let (transition, mut call) = self.script(|scripts| &scripts.postpone);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.attempts());
        call.key(keys.partition.releasable()).key(keys.lanes());
        call.key(keys.in_progress(set_key(known, head.lane)))
            .key(keys.withdrawals())
            .key(keys.hash());
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(name.as_str());
        call.arg(known.ordering_text()).arg(self.known_of_epoch(known.partition));
        call.arg(head.lane.unwrap_or_default()).arg(head.sequence).arg(head.failed);
        call.arg(wait.as_millis() as u64).arg(attempts::error_text(head.error));
        call.arg(known.version);
        self.learned(known.partition, self.run::<u64>(transition, &call).await)?;
        Ok(())
    }

    /// Sets a lane's head, whose attempts at delivery are used up, aside where it stands: its lane
    /// waits for a person.
    pub async fn halt(
        &self,
        owner: &Owner,
        known: &CatalogEntry,
        head: RefusedHead<'_>,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let set = set_key(known, head.lane);
        let (transition, mut call) = self.script(|scripts| &scripts.halt);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.hash());
        call.key(keys.attempts()).key(keys.halted()).key(keys.lanes()).key(keys.messages());
        call.key(keys.in_progress(set)).key(keys.ready(set));
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(known.ordering_text());
        call.arg(self.known_of_epoch(known.partition));
        call.arg(head.lane.unwrap_or_default()).arg(head.sequence);
        call.arg(head.failed).arg(attempts::error_text(head.error)).arg(known.version);
        self.learned(known.partition, self.run::<u64>(transition, &call).await)?;
        Ok(())
    }

    /// Destinations of these partitions whose heads may leave now, in the partitions' order. A
    /// hint. Nothing of those whose server does not answer, unless none does.
    pub async fn releasable(&self, partitions: &[u16]) -> Result<Vec<Vec<String>>, StoreError> {
        let keys: Vec<_> =
            partitions.iter().map(|number| self.keys().partition(*number).releasable()).collect();
        let clocks = self.clocks(&keys).await;
        let looks = keys.iter().zip(clocks).map(|(key, now_ms)| {
            let mut pipe = redis::pipe();
            pipe.zrangebyscore_limit(key, "-inf", now_ms.unwrap_or_default(), 0, 10_000);
            pipe
        });
        self.names(&looks.collect::<Vec<_>>()).await
    }

    /// The names that each of these looks, of one command each, has found. None where the server does
    /// not answer, unless no server does.
    pub(super) async fn names(
        &self,
        looks: &[redis::Pipeline],
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let found = ask::answered(self.query_each(looks).await)?;
        let read = |found: Option<Vec<Value>>| match found {
            Some(found) => ask::texts(found.into_iter().next(), "a look at a partition"),
            None => Ok(Vec::new()),
        };
        let found = found.into_iter().map(read);
        // What cannot be read in one partition hides nothing in the others.
        Ok(found.map(Result::unwrap_or_default).collect())
    }

    /// Where lanes are keys: lanes whose heads may leave now, the longest waiting first. A hint.
    pub async fn releasable_lanes(
        &self,
        known: &CatalogEntry,
        max: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = self.keys().destination(&known.destination.name).lanes();
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(&key, 0, max as isize - 1).cmd("TIME");
        // In this order: what was hinted at by then has a time that is not after it.
        type Found = (Vec<(Vec<u8>, f64)>, ask::ServerTime);
        let (lanes, time): Found = self.query_at(key.as_bytes(), &pipe).await?;
        let now_ms = ask::server_ms(time) as f64;
        let due = lanes.into_iter().take_while(|(_, not_before)| *not_before <= now_ms);
        // What is no text names no lane, and hides none.
        Ok(due.filter_map(|(lane, _)| String::from_utf8(lane).ok()).collect())
    }

    /// Notes how many messages of a destination are being delivered just now, for people to see.
    pub async fn note_delivering(
        &self,
        counts: &[(DestinationName, usize)],
    ) -> Result<(), StoreError> {
        let notes = counts.iter().map(|(name, count)| {
            let mut pipe = redis::pipe();
            pipe.set_ex(self.keys().destination(name).delivering(), count, DELIVERING_SECONDS);
            pipe
        });
        let noted = self.query_each(&notes.collect::<Vec<_>>()).await;
        noted.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }
}

/// The key of the sets in which a lane's messages stand: where nothing is in order, all stand in
/// the destination's own.
pub(super) fn set_key<'a>(known: &CatalogEntry, lane: Option<&'a str>) -> Option<&'a str> {
    lane.filter(|_| known.destination.ordering == Ordering::Key)
}

fn read_run(lane: Value, known: &CatalogEntry) -> Result<LaneRun, StoreError> {
    let shape = |_| unexpected("release");
    let lane: Vec<Value> = redis::from_redis_value(lane).map_err(shape)?;
    let mut parts = lane.into_iter();
    let mut next = || parts.next().ok_or_else(|| unexpected("release"));
    let wait_ms: u64 = redis::from_redis_value(next()?).map_err(shape)?;
    let kept: Bytes = redis::from_redis_value(next()?).map_err(shape)?;
    if let Some(error) = kept.strip_prefix(b"!") {
        let error = Some(String::from_utf8_lossy(error).into_owned());
        return Ok(LaneRun { wait: Duration::from_millis(wait_ms), error, ..LaneRun::default() });
    }
    let mut of_first = Some(attempts::read(&kept));
    let mut messages = Vec::with_capacity(parts.len() / 2);
    while let (Some(sequence), Some(bytes)) = (parts.next(), parts.next()) {
        let sequence: Sequence = redis::from_redis_value(sequence).map_err(shape)?;
        let bytes: Bytes = redis::from_redis_value(bytes).map_err(shape)?;
        let body = match record::is_apart(&bytes) {
            true => {
                let body = parts.next().ok_or_else(|| unexpected("release"))?;
                Some(redis::from_redis_value::<Bytes>(body).map_err(shape)?)
            }
            false => None,
        };
        let attempts = of_first.take().unwrap_or_default();
        let name = &known.destination.name;
        let message = record::read_with(bytes, body, name, sequence, attempts.clone());
        // The owner delivers what is before it, and halts it.
        messages.push(message.unwrap_or_else(|error| Stamped {
            attempts,
            ..Stamped::unreadable(name.clone(), sequence, error.to_string())
        }));
    }
    Ok(LaneRun { wait: Duration::from_millis(wait_ms), messages, error: None })
}
