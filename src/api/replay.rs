//! `POST /v1/destinations/{d}/replay`: enqueues delivered messages again, here or at another
//! destination.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api,
    reingest::{Arrivals, CALL_BYTES_MAX, Tally},
    request::{Target, read_optional, time_of},
    withdraw::wrong_state,
};
use crate::{
    domain::{
        Arrival, Body, DestinationName, Message, Origin, Position, Sequence, State as MessageState,
        message::check_text,
    },
    store::{CatalogEntry, Content, LogEntry, chunks_by_size, server_clock_ms},
    wire::problem::Problem,
};

/// Entries that are read together, without long bodies.
const AT_ONCE: usize = 200;
/// Sequences of the log that are read together.
const ORDER_AT_ONCE: usize = 10_000;
/// The longest idempotency key of a replay: the position of each message is appended.
const KEY_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    from_sequence: Option<Sequence>,
    from_time: Option<String>,
    to_sequence: Option<Sequence>,
    to_destination: Option<DestinationName>,
    #[serde(default)]
    dry_run: bool,
    idempotency_key: Option<String>,
}

/// Which messages to replay.
struct Range {
    from: Sequence,
    to: Sequence,
    settled_from_ms: u64,
}

impl Replay {
    /// The key may also be a header, as for messages; if both are given, they must be equal.
    fn add_key_of(&mut self, headers: &HeaderMap) -> Result<(), Problem> {
        for value in headers.get_all("idempotency-key") {
            let text = value.to_str().map_err(|_| {
                Problem::invalid_field(
                    "Idempotency-Key: only printable ASCII; give idempotency_key",
                )
            })?;
            if self.idempotency_key.as_ref().is_some_and(|given| given != text) {
                let detail = "idempotency_key: the header Idempotency-Key has a different value; give \
                              one of the two";
                return Err(Problem::invalid_field(detail));
            }
            self.idempotency_key = Some(text.to_owned());
        }
        Ok(())
    }

    fn range(&self) -> Result<Range, Problem> {
        let to = self.to_sequence.unwrap_or(Sequence::MAX);
        match (self.from_sequence, &self.from_time) {
            (Some(from), None) => Ok(Range { from, to, settled_from_ms: 0 }),
            (None, Some(time)) => {
                let settled_from_ms = time_of("from_time", time)?;
                Ok(Range { from: 0, to, settled_from_ms })
            }
            _ => {
                let detail = "from_sequence: give exactly one of from_sequence and from_time";
                Err(Problem::invalid_field(detail))
            }
        }
    }
}

/// `POST /v1/destinations/{d}/replay`
pub(super) async fn replay(
    State(api): State<Api>,
    Path(destination): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let source = Target::find(&api, &destination).await?;
    let mut request: Replay = read_optional(body, api.batch_bytes_max)?;
    request.add_key_of(&headers)?;
    let range = request.range()?;
    if let Some(key) = &request.idempotency_key {
        check_text("idempotency_key", key, KEY_BYTES_MAX).map_err(Problem::invalid_field)?;
    }
    let to = request.to_destination.as_ref().unwrap_or(&source.name).as_str().to_owned();
    let mut to = Target::find(&api, &to).await?;
    let source_entry: Arc<CatalogEntry> = source.entry().clone();
    let sequences = logged(&source, &range).await?;

    let mut arrivals = Arrivals::new(&to, request.idempotency_key.is_some());
    let (mut replayable, mut without_body) = (Tally::default(), 0_u64);
    for some in sequences.chunks(AT_ONCE) {
        let entries = api.store.log_entries(source.entry(), some).await?;
        let wanted = some.iter().zip(entries).filter_map(|(sequence, entry)| {
            Some((*sequence, entry.filter(|entry| is_wanted(entry, &range))?))
        });
        let wanted: Vec<_> = wanted.collect();
        // Read only as many bodies at a time as one call enqueues.
        for some in chunks_by_size(&wanted, AT_ONCE, CALL_BYTES_MAX, size_apart) {
            let mut some = some.to_vec();
            if !request.dry_run {
                api.store.fill_entries(source.entry(), &mut some).await?;
            }
            let mut anew = Vec::new();
            for (sequence, entry) in some {
                let Some(content) = &entry.content else {
                    without_body += 1;
                    continue;
                };
                replayable.stamped += 1;
                replayable.covers(sequence);
                if !request.dry_run {
                    let name = &source_entry.destination.name;
                    let key = request.idempotency_key.as_deref();
                    anew.push((sequence, arrival(name, sequence, &entry, content, key)));
                }
            }
            arrivals.stamp(&mut to, &anew).await?;
        }
    }
    if replayable.stamped == 0 && without_body > 0 {
        return Err(wrong_state(format!(
            "the log has {without_body} of them, but no bodies; set log_bodies of the destination, \
             and later deliveries can be replayed"
        )));
    }
    Ok(Json(answer(request.dry_run, &replayable, &arrivals.tally, without_body)))
}

/// The sequences in the log now, in order. A snapshot: a message replayed to its own destination
/// and delivered meanwhile is not replayed again.
async fn logged(source: &Target, range: &Range) -> Result<Vec<Sequence>, Problem> {
    let store = source.api.store.clone();
    let (mut sequences, mut before) = (Vec::new(), None);
    loop {
        let page = store.log_newest(source.entry(), before, ORDER_AT_ONCE).await?;
        let wanted = |sequence: &Sequence| (range.from..=range.to).contains(sequence);
        sequences.extend(page.sequences.into_iter().filter(wanted));
        before = page.next;
        if before.is_none() {
            sequences.sort_unstable();
            return Ok(sequences);
        }
    }
}

/// The bytes of an entry's body that is stored apart.
fn size_apart((_, entry): &(Sequence, LogEntry)) -> usize {
    let apart = entry.content.as_ref().and_then(|content| content.apart);
    apart.map_or(0, |(_, length)| length as usize)
}

fn is_wanted(entry: &LogEntry, range: &Range) -> bool {
    entry.outcome == MessageState::Delivered && entry.settled_ms >= range.settled_from_ms
}

/// A message of the log as an arrival.
fn arrival(
    source: &DestinationName,
    sequence: Sequence,
    entry: &LogEntry,
    content: &Content,
    idempotency_key: Option<&str>,
) -> Arrival {
    let Content { headers, content_type, bytes, .. } = content.clone();
    let message = Message {
        id: entry.id.clone(),
        key: entry.key.clone(),
        headers,
        body: Body { content_type, bytes },
        received_ms: server_clock_ms(),
    };
    let position = Position { epoch: entry.epoch, sequence };
    Arrival {
        idempotency_key: idempotency_key.map(|key| format!("{key}/{}/{sequence}", entry.epoch)),
        origin: Some(Origin { destination: source.clone(), position }),
        ..Arrival::of(message)
    }
}

fn answer(dry_run: bool, replayable: &Tally, tally: &Tally, without_body: u64) -> Value {
    if dry_run {
        return json!({
            "would_replay": replayable.stamped,
            "without_body": without_body,
            "first_sequence": replayable.first,
            "last_sequence": replayable.last,
        });
    }
    json!({
        "replayed": tally.stamped,
        "duplicates": tally.duplicates,
        "refused": tally.refused,
        "without_body": without_body,
        "first_sequence": replayable.first,
        "last_sequence": replayable.last,
        "new_first_sequence": tally.new_first,
        "new_last_sequence": tally.new_last,
    })
}
