//! Stamps arrivals (`lua/ingest.lua`).

mod answer;
mod leased;

use bytes::Bytes;
use sha2::{Digest, Sha256};

pub use answer::Ingested;
use answer::read_answer;
use leased::Wanted;
pub use leased::{LeaseTerms, Unconfirmed};

use super::{ingest_fast, ingest_ready_fast};
use crate::{
    CallSequence, Claimed, Store, StoreError,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::{Claimers, DestinationKeys},
    record::{self, Part},
    rows::{BodyOutOfLine, LaneRow, Numbered},
};
use domain::{
    Arrival, Destination, Due, Epoch, IdempotencyCompare, LeaseToken, Ordering, Processing,
    Redrive, TransformKind, hex::hex,
};
use redis_client::ScriptCall;

/// The most arrivals that take the fast path. With more arrivals, the extra cost of the full script does not matter.
const FAST_MAX: usize = 32;

row! {
    /// An arrival.
    ArrivalRow<'a> {
        record: Vec<u8>,
        /// The number of the arrival's lane, from 1.
        lane: usize,
        /// The id of the message; empty if the destination does not index ids.
        id: &'a str,
    }
}

row! {
    /// The options of an arrival. Most arrivals have none.
    ArrivalOptions {
        /// The number of the arrival, from 1.
        arrival: usize,
        /// Empty, or `<number of the idempotency key, from 1>:<digest> <id>`.
        seen: String,
        /// Some of `delay=<ms>;`, `due=<ms since 1970>;`, `priority=<0 to 9>;`, `replaces=<dead letter>,<its epoch>;`,
        /// `processed;`.
        options: String,
    }
}

row! {
    /// The source of an arrival, if it names one.
    SourceRow<'a> {
        /// The number of the arrival, from 1.
        arrival: usize,
        name: &'a str,
        position: &'a str,
        /// The mark that the source must have; empty: any mark.
        after: &'a str,
        /// True if the arrival only moves the mark, and no message is stored.
        skips: bool,
    }
}

contract! {
    ingest
    keys(keys: &DestinationKeys, caller: &str, claimers: Claimers) {
        epoch, call: keys.call(caller), destination: keys.hash(), waiting, messages,
        active: keys.active(claimers), releasable, lanes, wake_waiting, wake_releasable, delayed,
        attempts, idempotency_keys, dead_letters, dead_letter_messages, bodies, dead_lettered_at,
        previous, ids, sources, leases,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
        version: u64,
        /// The epoch that the records carry.
        message_epoch: Epoch,
        seen_epoch: String,
        /// `waiting`; or `ready` if messages need no processing.
        first_state: &'a str,
        /// The most pending messages.
        backlog_max: u64,
        /// The most pending bytes; 0: no limit.
        backlog_bytes_max: u64,
        /// The idempotency window; 0: a key is remembered while its first message is pending.
        window_ms: u64,
        /// The most idempotency keys to remember within the window.
        keys_max: u64,
        ordering: &'a str,
        processing: &'a str,
        record_schema: u32,
        /// The sum of the accounted bytes of all arrivals.
        accounted_bytes_sum: u64,
        /// How many ids the index holds; 0: there is no index.
        ids_max: u64,
        /// What makes an arrival with a known idempotency key a repeat: an equal `body`, or the `key` alone.
        compare: &'a str,
        /// The most sources of the destination.
        sources_max: u64,
        /// The secret of the leases that the arrivals get at once if no message waits before them; empty: the
        /// arrivals wait.
        secret: &'a str,
        lease_ms: u64,
    }
    lists {
        lanes: LaneRow<'a>,
        /// With a window: the Redis key of each idempotency key.
        seen: Vec<u8>,
        /// Without a window: the idempotency keys.
        idempotency_keys: &'a str,
        arrivals: ArrivalRow<'a>,
        bodies: BodyOutOfLine,
        options: ArrivalOptions,
        of_sources: SourceRow<'a>,
    }
}

/// A batch of arrivals for one destination, as it is turned into the arguments of a call.
struct Batch<'a> {
    call_sequence: &'a CallSequence,
    entry: &'a CatalogEntry,
    epoch: Epoch,
    schema: u32,
    arrivals: &'a [&'a Arrival],
    lanes: Numbered<Option<&'a str>>,
    idempotency_keys: Numbered<&'a str>,
    /// The lane (from 1) and record of each arrival.
    records: Vec<(usize, Vec<u8>)>,
    options: Vec<ArrivalOptions>,
    sources: Vec<SourceRow<'a>>,
    accounted_bytes_sum: u64,
    bodies: Vec<BodyOutOfLine>,
    wanted: &'a Wanted<'a>,
}

impl<'a> Batch<'a> {
    fn of(
        (call_sequence, entry): (&'a CallSequence, &'a CatalogEntry),
        (epoch, schema): (Epoch, u32),
        arrivals: &'a [&'a Arrival],
        wanted: &'a Wanted<'a>,
    ) -> Batch<'a> {
        let mut batch = Batch {
            call_sequence,
            entry,
            epoch,
            schema,
            arrivals,
            lanes: Numbered::default(),
            idempotency_keys: Numbered::default(),
            records: Vec::with_capacity(arrivals.len()),
            options: Vec::new(),
            sources: Vec::new(),
            accounted_bytes_sum: 0,
            bodies: Vec::new(),
            wanted,
        };
        for arrival in arrivals {
            let lane = entry.destination.lane_key(arrival.message.key.as_deref());
            let lane = batch.lanes.number_of(lane);
            let key = arrival.idempotency_key.as_deref();
            let seen = key.map_or_else(String::new, |key| {
                let index = batch.idempotency_keys.number_of(key);
                let digest = digest(&arrival.message.body.bytes);
                format!("{index}:{digest} {}", arrival.message.id)
            });
            batch.add(arrival, lane, seen);
        }
        batch
    }

    fn add(&mut self, arrival: &'a Arrival, lane: usize, seen: String) {
        let keeps_key = self.entry.destination.idempotency_window_ms == 0;
        let (written, accounted_bytes) = match &arrival.redrive {
            Some(Redrive { processed: Some(stamped), .. }) => {
                let key = arrival.idempotency_key.clone().filter(|_| keeps_key);
                let written = record::of_redriven(stamped, self.epoch, key, self.schema);
                (written, stamped.accounted_bytes)
            }
            _ => {
                let accounted_bytes = arrival.message.body.bytes.len() as u64;
                let written = record::of_arrival(arrival, self.epoch, keeps_key, self.schema);
                (written, accounted_bytes)
            }
        };
        self.accounted_bytes_sum += accounted_bytes;
        self.records.push((lane, written.record));
        let which = self.records.len();
        let out_of_line = |(part, body): (Part, Option<Bytes>)| {
            Some(BodyOutOfLine { of: which, suffix: part.suffix(), body: body? })
        };
        self.bodies.extend(written.bodies.into_iter().filter_map(out_of_line));
        self.sources.extend(arrival.source.as_deref().map(|source| SourceRow {
            arrival: which,
            name: &source.name,
            position: &source.position,
            after: source.after.as_deref().unwrap_or_default(),
            skips: source.skip,
        }));
        let options = options(arrival);
        if !seen.is_empty() || !options.is_empty() {
            self.options.push(ArrivalOptions { arrival: which, seen, options });
        }
    }

    /// True if these arrivals may take the fast path.
    fn is_fast(&self) -> bool {
        // Names all fields, so that a new one does not compile until it is decided here.
        let Batch {
            entry,
            arrivals,
            idempotency_keys,
            options,
            sources,
            bodies,
            call_sequence: _,
            epoch: _,
            schema: _,
            lanes: _,
            records: _,
            accounted_bytes_sum: _,
            wanted: _,
        } = self;
        let destination = &entry.destination;
        destination.ordering == Ordering::Destination
            && destination.processing == Processing::Parallel
            && destination.backlog_bytes_max == 0
            && destination.ids_indexed() == 0
            && arrivals.len() <= FAST_MAX
            && idempotency_keys.values.is_empty()
            && options.is_empty()
            && sources.is_empty()
            && bodies.is_empty()
    }
}

fn needs_processing(destination: &Destination) -> bool {
    destination.transform.kind != TransformKind::None
}

/// The state of a message that arrives, as the script names it.
fn first_state(destination: &Destination) -> &'static str {
    if needs_processing(destination) { "waiting" } else { "ready" }
}

/// Returns the options of an arrival as the script parses them.
fn options(arrival: &Arrival) -> String {
    let mut text = String::new();
    match arrival.due {
        Some(Due::After(ms)) => text.push_str(&format!("delay={ms};")),
        Some(Due::At(ms)) => text.push_str(&format!("due={ms};")),
        None => {}
    }
    if let Some(priority) = arrival.priority {
        text.push_str(&format!("priority={priority};"));
    }
    if let Some(redrive) = &arrival.redrive {
        let letter = redrive.letter;
        text.push_str(&format!("replaces={},{};", letter.sequence, letter.epoch));
        text.push_str(if redrive.processed.is_some() { "processed;" } else { "" });
    }
    text
}

/// The digest of a body that distinguishes a repeat from a conflict: half of its SHA-256, in hex.
fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body)[..16])
}

impl Store {
    /// Stamps and stores arrivals for one destination, in order; at most `ingest.batch_max`. Returns one result each,
    /// in order, once the messages have the destination's durability. Without confirmation the call is unconfirmed,
    /// and a repeat waits again. `epoch` is the epoch that the messages carry, as far as the caller knows
    /// ([`Store::message_epoch`]).
    pub async fn ingest(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        epoch: Epoch,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Ingested>, StoreError> {
        let ingested = self.ingest_leasing(call_sequence, entry, epoch, arrivals, None).await;
        ingested.map(|(ingested, _)| ingested)
    }

    /// Like `ingest`. If no message waits for its processing, also leases the arrivals that need processing now, on
    /// these terms. If the messages are not confirmed, their leases are stored in [`Unconfirmed`]: a caller that
    /// gives up the call must requeue them.
    pub async fn ingest_leasing(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        epoch: Epoch,
        arrivals: &[&Arrival],
        terms: Option<(&LeaseTerms, &Unconfirmed)>,
    ) -> Result<(Vec<Ingested>, Claimed), StoreError> {
        // Only a claim can enforce a rate.
        let has_rate = entry.destination.transform.rate_per_second_max > 0;
        let terms = terms.filter(|_| !has_rate);
        let wanted = &terms.map_or_else(Wanted::default, |(terms, unconfirmed)| Wanted {
            secret: LeaseToken::secret_of(&self.random_of(call_sequence), terms.holder.as_ref()),
            lease_ms: terms.lease.as_millis() as u64,
            unconfirmed: Some(unconfirmed),
        });
        let call = |schema| async move {
            let batch = Batch::of((call_sequence, entry), (epoch, schema), arrivals, wanted);
            call_sequence.answered(self.ingest_batch(batch).await)
        };
        self.in_schema(entry.partition, call).await
    }

    async fn ingest_batch(&self, batch: Batch<'_>) -> Result<(Vec<Ingested>, Claimed), StoreError> {
        let Batch { entry, epoch, arrivals, wanted, .. } = batch;
        if batch.is_fast() {
            let call = self.fast_ingest(&batch);
            match self.stamp(call, entry, epoch, arrivals, wanted).await {
                Err(StoreError::NotFast) => {}
                answer => return answer,
            }
        }
        self.stamp(self.whole_ingest(batch), entry, epoch, arrivals, wanted).await
    }

    /// The call of the fast path, for a few ordinary arrivals of one lane.
    fn fast_ingest(&self, batch: &Batch<'_>) -> ScriptCall<'_> {
        let destination = &batch.entry.destination;
        let keys = self.keys().destination(&destination.name);
        let (caller, call_number) = batch.call_sequence.current();
        let args = ingest_fast::Args {
            call_number,
            destination: destination.name.as_str(),
            version: batch.entry.version,
            message_epoch: batch.epoch,
            seen_epoch: self.known_of_epoch(batch.entry.partition),
            backlog_max: destination.backlog_max,
            record_schema: batch.schema,
            accounted_bytes_sum: batch.accounted_bytes_sum,
            secret: &batch.wanted.secret,
            lease_ms: batch.wanted.lease_ms,
            records: batch.records.iter().map(|(_, record)| &record[..]).collect(),
        };
        match needs_processing(destination) {
            true => args.call(self, &keys, &caller, batch.entry.claimers()),
            false => ingest_ready_fast::Args::from(args).call(self, &keys, &caller),
        }
    }

    fn whole_ingest(&self, batch: Batch<'_>) -> ScriptCall<'_> {
        let Batch { call_sequence, entry, epoch, schema, .. } = batch;
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let (caller, call_number) = call_sequence.current();
        let has_ids = destination.ids_indexed() > 0;
        let rows =
            batch.records.into_iter().zip(batch.arrivals).map(|((lane, record), arrival)| {
                ArrivalRow { record, lane, id: if has_ids { &arrival.message.id } else { "" } }
            });
        let (seen, idempotency_keys) = match destination.idempotency_window_ms {
            0 => (Vec::new(), batch.idempotency_keys.values),
            _ => {
                let seen = |key: &&str| keys.idempotency(key).into_bytes();
                (batch.idempotency_keys.values.iter().map(seen).collect(), Vec::new())
            }
        };
        Args {
            call_number,
            destination: destination.name.as_str(),
            version: entry.version,
            message_epoch: epoch,
            seen_epoch: self.known_of_epoch(entry.partition),
            first_state: first_state(destination),
            backlog_max: destination.backlog_max,
            backlog_bytes_max: destination.backlog_bytes_max,
            window_ms: destination.idempotency_window_ms,
            keys_max: destination.idempotency_keys_max,
            ordering: entry.ordering_text(),
            processing: entry.processing_text(),
            record_schema: schema,
            accounted_bytes_sum: batch.accounted_bytes_sum,
            ids_max: destination.ids_indexed(),
            compare: match destination.idempotency_compare {
                IdempotencyCompare::Body => "body",
                IdempotencyCompare::Key => "key",
            },
            sources_max: destination.sources_max,
            secret: &batch.wanted.secret,
            lease_ms: batch.wanted.lease_ms,
            lanes: LaneRow::of_all(&keys, &batch.lanes),
            seen,
            idempotency_keys,
            arrivals: rows.collect(),
            bodies: batch.bodies,
            options: batch.options,
            of_sources: batch.sources,
        }
        .call(self, &keys, &caller, entry.claimers())
    }

    /// Makes the call for these arrivals, and reads its answer.
    async fn stamp(
        &self,
        mut call: ScriptCall<'_>,
        entry: &CatalogEntry,
        epoch: Epoch,
        arrivals: &[&Arrival],
        wanted: &Wanted<'_>,
    ) -> Result<(Vec<Ingested>, Claimed), StoreError> {
        call.of_messages(arrivals.len());
        let level = entry.destination.durability;
        // Boxed: the callers' futures would nest too deep for the compiler.
        let answer = Box::pin(self.run_durably(&call, level)).await;
        if let Err(StoreError::StaleEpoch(epoch)) = &answer {
            self.inner.epochs.note_stamped(entry.partition, *epoch);
        }
        let (answer, confirmed) = answer?;
        let (ingested, leased) = read_answer(answer, epoch, arrivals.len())?;
        // Refused arrivals promise nothing, so they need no confirmation.
        let promises = |one| matches!(one, &Ingested::Stamped(_) | &Ingested::Duplicate(..));
        let leased = leased.map(|leased| leased.claimed(entry, wanted, &ingested, arrivals));
        let leased = leased.unwrap_or_default();
        if confirmed || !ingested.iter().any(promises) {
            return Ok((ingested, leased));
        }
        if let Some(unconfirmed) = wanted.unconfirmed {
            *unconfirmed.lock() = leased.messages.into_iter().map(|(token, _)| token).collect();
        }
        Err(StoreError::Unconfirmed(format!("the messages are not yet {level}")))
    }
}
