//! Stamping arrivals (`lua/ingest.lua`).

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use redis::Value;
use sha2::{Digest, Sha256};

use crate::{
    domain::{
        Arrival, Destination, Due, Epoch, Ordering, Position, Processing, Redrive, TransformKind,
        hex::hex,
    },
    faults::planted,
    redis_client::ScriptCall,
    store::{
        CallSequence, Store, StoreError,
        calls::unexpected,
        entry::CatalogEntry,
        record::{self, Part},
    },
};

/// The result for one arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// Stamped, with this position.
    Stamped(Position),
    /// A repeat of a message that was stamped before, with this position and id.
    Duplicate(Position, String),
    /// A message with another body was stamped under the same idempotency key.
    Conflict,
    /// The destination's backlog is full, in messages, bytes or idempotency keys. Nothing was stored.
    BacklogFull,
    /// The dead letter to redrive is gone. Nothing was stored.
    Gone,
    /// The data of its lane, or of a key it needs, is damaged. Nothing was stored.
    Damaged,
}

/// The numbers of the keys that a short call has, as `lua/ingest.lua` counts them.
const SHORT: [usize; 8] = [1, 2, 3, 4, 5, 6, 9, 19];
/// The same, if there is nothing to process.
const SHORT_READY: [usize; 8] = [1, 2, 3, 5, 7, 10, 19, 20];

/// The most arrivals of a short call. With more, what the others cost does not matter.
const SHORT_MAX: usize = 32;

/// The arguments for a batch.
struct Batch<'a> {
    lanes: Vec<Option<&'a str>>,
    /// The idempotency keys.
    names: Vec<&'a str>,
    /// The lane (from 1) and record of each arrival.
    arrivals: Vec<(usize, Vec<u8>)>,
    /// For arrivals with more: which one (from 1), idempotency key and digest, options.
    more: Vec<(usize, String, String)>,
    /// The sum of the accounted bytes.
    accounted_bytes: u64,
    /// Bodies that are stored apart: of which arrival (from 1), and which of its bodies.
    bodies: Vec<(usize, Part, Bytes)>,
}

impl<'a> Batch<'a> {
    fn of(entry: &CatalogEntry, epoch: Epoch, schema: u32, arrivals: &[&'a Arrival]) -> Batch<'a> {
        let mut batch = Batch {
            lanes: Vec::new(),
            names: Vec::new(),
            arrivals: Vec::with_capacity(arrivals.len()),
            more: Vec::new(),
            accounted_bytes: 0,
            bodies: Vec::new(),
        };
        let (mut lane_index, mut name_index) = (HashMap::new(), HashMap::new());
        let keeps_key = entry.destination.idempotency_window_ms == 0;
        for arrival in arrivals {
            let lane = entry.destination.lane_key(arrival.message.key.as_deref());
            let lane = *lane_index.entry(lane).or_insert_with(|| {
                batch.lanes.push(lane);
                batch.lanes.len()
            });
            let key = arrival.idempotency_key.as_deref();
            let key = key.filter(|_| !planted::is("idempotency_key_dropped"));
            let seen = key.map_or_else(String::new, |key| {
                let index = *name_index.entry(key).or_insert_with(|| {
                    batch.names.push(key);
                    batch.names.len()
                });
                let digest = digest(&arrival.message.body.bytes);
                format!("{index}:{digest} {}", arrival.message.id)
            });
            let (written, accounted_bytes) = match &arrival.redrive {
                Some(Redrive { processed: Some(stamped), .. }) => {
                    let key = arrival.idempotency_key.clone().filter(|_| keeps_key);
                    (record::of_redriven(stamped, epoch, key, schema), stamped.accounted_bytes)
                }
                _ => {
                    let accounted_bytes = arrival.message.body.bytes.len() as u64;
                    (record::of_arrival(arrival, epoch, keeps_key, schema), accounted_bytes)
                }
            };
            batch.accounted_bytes += accounted_bytes;
            batch.arrivals.push((lane, written.record));
            let (which, stored) = (batch.arrivals.len(), written.bodies.into_iter());
            batch.bodies.extend(stored.filter_map(|(part, body)| Some((which, part, body?))));
            let options = options(arrival);
            if !seen.is_empty() || !options.is_empty() {
                batch.more.push((batch.arrivals.len(), seen, options));
            }
        }
        batch
    }

    /// True if a short call suffices for this destination and these arrivals.
    fn is_short(&self, destination: &Destination) -> bool {
        destination.ordering == Ordering::Destination
            && destination.processing == Processing::Parallel
            && destination.backlog_bytes_max == 0
            && destination.ids_max == 0
            && self.arrivals.len() <= SHORT_MAX
            && self.names.is_empty()
            && self.more.is_empty()
            && self.bodies.is_empty()
    }
}

fn needs_processing(destination: &Destination) -> bool {
    destination.transform.kind != TransformKind::None
}

/// The state of a message that arrives, as the script names it.
fn first_state(destination: &Destination) -> &'static str {
    if needs_processing(destination) { "waiting" } else { "ready" }
}

fn short_keys(destination: &Destination) -> [usize; 8] {
    if needs_processing(destination) { SHORT } else { SHORT_READY }
}

/// The options that few arrivals have, as the script parses them.
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

/// The digest of a body that tells a repeat from a conflict: half of its SHA-256, in hex.
fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body)[..16])
}

/// What a call is about, besides its arrivals.
struct Of<'a> {
    call_sequence: &'a CallSequence,
    entry: &'a CatalogEntry,
    epoch: Epoch,
    schema: u32,
}

/// The calls.
impl Store {
    /// For few arrivals of one lane, without anything special.
    fn short_ingest(&self, of: &Of<'_>, batch: &Batch<'_>) -> ScriptCall<'_> {
        let Of { call_sequence, entry, epoch, schema } = *of;
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let mut call = self.call(|scripts| &scripts.ingest);
        let (caller, number) = call_sequence.current();
        call.key(keys.partition.epoch()).key(keys.partition.call(&caller));
        call.key(keys.hash());
        if needs_processing(destination) {
            call.key(keys.waiting()).key(keys.messages());
            call.key(keys.partition.active(entry.claimers()));
            call.key(keys.partition.wake_waiting()).key(keys.in_progress(None));
        } else {
            call.key(keys.messages()).key(keys.partition.releasable());
            call.key(keys.partition.wake_releasable());
            call.key(keys.in_progress(None)).key(keys.ready(None));
        }
        call.arg(number).arg(destination.name.as_str()).arg(entry.version);
        call.arg(epoch).arg(self.known_of_epoch(entry.partition));
        call.arg(first_state(destination)).arg(destination.backlog_max);
        call.arg(schema).arg(batch.accounted_bytes);
        for (_, record) in &batch.arrivals {
            call.arg(record);
        }
        call
    }

    fn whole_ingest(
        &self,
        of: &Of<'_>,
        batch: &Batch<'_>,
        arrivals: &[&Arrival],
    ) -> ScriptCall<'_> {
        let Of { call_sequence, entry, epoch, schema } = *of;
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let mut call = self.call(|scripts| &scripts.ingest);
        let (caller, number) = call_sequence.current();
        call.key(keys.partition.epoch()).key(keys.partition.call(&caller));
        call.key(keys.hash()).key(keys.waiting()).key(keys.messages());
        call.key(keys.partition.active(entry.claimers())).key(keys.partition.releasable());
        call.key(keys.lanes());
        call.key(keys.partition.wake_waiting()).key(keys.partition.wake_releasable());
        call.key(keys.partition.delayed()).key(keys.attempts()).key(keys.idempotency_keys());
        call.key(keys.dead_letters()).key(keys.dead_letter_messages()).key(keys.bodies());
        call.key(keys.dead_lettered_at()).key(keys.previous());
        for lane in &batch.lanes {
            call.key(keys.in_progress(*lane)).key(keys.ready(*lane));
        }
        let has_window = destination.idempotency_window_ms > 0;
        let has_ids = destination.ids_max > 0;
        let remembered = batch.names.iter().filter(|_| has_window);
        let remembered = remembered.map(|name| keys.idempotency(name));
        for key in remembered.chain(has_ids.then(|| keys.ids())) {
            call.key(key);
        }
        call.arg(number).arg(destination.name.as_str()).arg(entry.version);
        call.arg(epoch).arg(self.known_of_epoch(entry.partition));
        call.arg(first_state(destination));
        call.arg(destination.backlog_max).arg(destination.backlog_bytes_max);
        let (window_ms, keys_max) =
            (destination.idempotency_window_ms, destination.idempotency_keys_max);
        call.arg(format!("{window_ms} {keys_max}"));
        call.arg(entry.ordering_text()).arg(entry.processing_text());
        call.arg(batch.lanes.len()).arg(if has_window { 0 } else { batch.names.len() });
        call.arg(schema).arg(batch.arrivals.len()).arg(batch.accounted_bytes);
        call.arg(batch.bodies.len()).arg(destination.ids_max);
        for lane in &batch.lanes {
            call.arg(lane.unwrap_or_default());
        }
        for name in batch.names.iter().filter(|_| !has_window) {
            call.arg(name);
        }
        for (_, record) in &batch.arrivals {
            call.arg(record);
        }
        if batch.lanes.len() > 1 {
            for (lane, _) in &batch.arrivals {
                call.arg(*lane);
            }
        }
        for arrival in arrivals.iter().filter(|_| has_ids) {
            call.arg(&arrival.message.id);
        }
        for (which, part, body) in &batch.bodies {
            call.arg(*which).arg(part.suffix()).arg(&body[..]);
        }
        for (which, seen, options) in &batch.more {
            call.arg(*which).arg(seen).arg(options);
        }
        call
    }
}

impl Store {
    /// Stamps and stores arrivals for one destination, in order; at most `ingest.batch_max`. One
    /// result each, in order, with the destination's durability. Without confirmation the call is
    /// unconfirmed, and a repeat waits again. `epoch` is the message epoch that the caller last
    /// saw.
    pub async fn ingest(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        epoch: Epoch,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Ingested>, StoreError> {
        let call = |schema| self.ingest_in(schema, call_sequence, entry, epoch, arrivals);
        self.in_schema(entry.partition, call).await
    }

    async fn ingest_in(
        &self,
        schema: u32,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        epoch: Epoch,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Ingested>, StoreError> {
        let destination = &entry.destination;
        let batch = Batch::of(entry, epoch, schema, arrivals);

        let is_short = batch.is_short(destination);
        let of = Of { call_sequence, entry, epoch, schema };
        let mut call = match is_short {
            true => self.short_ingest(&of, &batch),
            false => self.whole_ingest(&of, &batch, arrivals),
        };
        call.of_messages(batch.arrivals.len());
        // Boxed: the callers' futures would nest too deep for the compiler.
        let answer = Box::pin(self.run_durably(&call, destination.durability)).await;
        let answer = answer.and_then(|(answer, confirmed)| {
            let (ingested, damaged) = read_answer(answer, epoch, arrivals.len())?;
            for number in damaged {
                let (_, keys) = call.described();
                let at = match is_short {
                    true => short_keys(destination).iter().position(|short| *short == number),
                    false => number.checked_sub(1),
                };
                let key = at.and_then(|at| keys.get(at)).map(|key| String::from_utf8_lossy(key));
                self.note_damaged_keys(entry, "ingest", key.into_iter().map(Into::into).collect());
            }
            // Refused arrivals promise nothing, so they need no confirmation.
            let promises = |one| matches!(one, &Ingested::Stamped(_) | &Ingested::Duplicate(..));
            if confirmed || !ingested.iter().any(promises) {
                return Ok(ingested);
            }
            let level = destination.durability;
            Err(StoreError::Unconfirmed(format!("the messages are not yet {level}")))
        });
        if let Err(StoreError::StaleEpoch(epoch)) = &answer {
            self.inner.epochs.note_carried(entry.partition, *epoch);
        }
        call_sequence.answered(answer)
    }
}

/// The result of each arrival, and which keys of the call are damaged (from 1).
fn read_answer(
    answer: Value,
    epoch: Epoch,
    count: usize,
) -> Result<(Vec<Ingested>, BTreeSet<usize>), StoreError> {
    type Exception = (usize, String, u64, Epoch, String);
    let Value::Array(mut parts) = answer else { return Err(unexpected("ingest")) };
    if parts.is_empty() {
        return Err(unexpected("ingest"));
    }
    let exceptions: Vec<Exception> = parts
        .split_off(1)
        .into_iter()
        .map(redis::from_redis_value)
        .collect::<Result<_, _>>()
        .map_err(|_| unexpected("ingest"))?;
    let mut sequence: u64 = parts
        .pop()
        .and_then(|first| redis::from_redis_value(first).ok())
        .ok_or_else(|| unexpected("ingest"))?;
    let damaged = exceptions.iter().filter(|exception| exception.1 == "damaged");
    let damaged = damaged.map(|exception| exception.2 as usize).collect();
    let mut exceptions = exceptions.into_iter().peekable();
    let result = (1..=count).map(|arrival| {
        let listed = exceptions.next_if(|exception| exception.0 == arrival);
        let Some((_, kind, at, in_epoch, id)) = listed else {
            let position = Position { epoch, sequence };
            sequence += 1;
            return Ok(Ingested::Stamped(position));
        };
        match kind.as_str() {
            "duplicate" => Ok(Ingested::Duplicate(Position { epoch: in_epoch, sequence: at }, id)),
            "conflict" => Ok(Ingested::Conflict),
            "backlog_full" => Ok(Ingested::BacklogFull),
            "gone" => Ok(Ingested::Gone),
            "damaged" => Ok(Ingested::Damaged),
            _ => Err(unexpected("ingest")),
        }
    });
    Ok((result.collect::<Result<_, _>>()?, damaged))
}
