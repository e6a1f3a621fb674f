//! `POST /v1/destinations/{d}/replay`: enqueues delivered messages again, here or at another
//! destination.

use std::{num::NonZeroU32, sync::Arc};

use axum::{Extension, http::HeaderMap, response::Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api,
    bulk::{self, BulkAnswers, Kind, Prefer, Progress},
    reingest::{Arrivals, CALL_BYTES_MAX},
    request::{InDestination, Order, Range, Target},
    withdraw::wrong_state,
};
use domain::{
    Arrival, Body, DestinationName, Message, Origin, Position, ProcessingOptions, Sequence,
    State as MessageState, message::check_text,
};
use http_server::{
    idempotency_key::idempotency_key, invalid::Location, openapi_responses, principal::Principal,
    problem::Problem,
};
use store::{Content, LogEntry, chunks_by_size, server_clock_ms};

/// The most log entries that one call to Redis reads, without long bodies.
const AT_ONCE: usize = 200;
/// The most sequences of the log that one call to Redis reads.
const ORDER_AT_ONCE: usize = 10_000;
/// The longest idempotency key of a replay. Each message gets this key and its position as its own key.
const KEY_BYTES_MAX: usize = 200;

/// Which messages to replay, and to which destination.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayRequest)]
pub(super) struct Replay {
    /// The first sequence. Give this, `from_time`, or both.
    from_sequence: Option<Sequence>,
    /// The last sequence.
    to_sequence: Option<Sequence>,
    /// Only messages delivered since this time (RFC 3339).
    from_time: Option<String>,
    /// Only messages delivered until this time (RFC 3339).
    to_time: Option<String>,
    /// The destination that gets the messages; the same destination if absent.
    to_destination: Option<DestinationName>,
    /// The most messages per second; as fast as possible if absent.
    #[schema(value_type = Option<u32>, minimum = 1)]
    rate_per_second: Option<NonZeroU32>,
    /// True: only counts the messages.
    #[serde(default)]
    dry_run: bool,
    /// A repeat with this key enqueues no message twice. Also accepted as the header `Idempotency-Key`.
    #[schema(max_length = 200)]
    idempotency_key: Option<String>,
}

impl Replay {
    /// Accepts the key as a header too, as for messages. If the request gives both, they must be equal.
    fn add_key_of(&mut self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(said) = idempotency_key(headers).map_err(Problem::invalid_header)? else {
            return Ok(());
        };
        if self.idempotency_key.as_ref().is_some_and(|given| *given != said) {
            let detail = "idempotency_key: the header Idempotency-Key has a different value; give \
                          one of the two";
            return Err(Problem::invalid_field(detail));
        }
        self.idempotency_key = Some(said);
        Ok(())
    }

    fn range(&self) -> Result<Range, Problem> {
        if self.from_sequence.is_none() && self.from_time.is_none() {
            let detail = "from_sequence: give it or from_time, or both";
            return Err(Problem::invalid_field(detail));
        }
        let times = (self.from_time.as_deref(), self.to_time.as_deref());
        Range::parse(Location::Body, self.from_sequence, self.to_sequence, times.0, times.1)
    }
}

/// `POST /v1/destinations/{d}/replay`
#[utoipa::path(post, path = "/v1/destinations/{destination}/replay", tag = "history", operation_id = "replay",
    params(InDestination, Prefer,
        ("Idempotency-Key" = Option<String>, Header, description = "The same as the field")),
    request_body = Replay,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn replay(
    Extension(caller): Extension<Principal>,
    headers: HeaderMap,
    Order(source, mut request): Order<Replay>,
) -> Result<Response, Problem> {
    request.add_key_of(&headers)?;
    let range = request.range()?;
    if let Some(key) = &request.idempotency_key {
        check_text("idempotency_key", key, KEY_BYTES_MAX).map_err(Problem::invalid_field)?;
    }
    let to = match &request.to_destination {
        Some(to) if to.as_str() != source.name.base() => to.clone(),
        _ => source.name.clone(),
    };
    caller.check(&to)?;
    if to != source.name && (to.shard() > 0 || has_shards(&source.api, &to).await?) {
        let detail = format!(
            "to_destination: the keys of {to} belong to several shards; replay to the destination itself, or to one \
             without shards"
        );
        return Err(Problem::invalid_field(detail));
    }
    let to = Target::find(&source.api, to.as_str()).await?;
    // Messages in the log of the same destination already came with a signature or a token.
    if to.name != source.name && to.entry().destination.verify.is_some() {
        caller.check_proof(&to.name)?;
    }
    let (from, dry_run) = (source.clone(), request.dry_run);
    let work = |progress| replay_all(from, to, range, request, progress);
    bulk::run(&source, Kind::Replay, dry_run, &headers, work).await
}

async fn has_shards(api: &Api, name: &DestinationName) -> Result<bool, Problem> {
    let entry = api.catalog.find(name).await?;
    Ok(entry.is_some_and(|entry| entry.destination.shards > 1))
}

/// Replays the messages of the range.
async fn replay_all(
    source: Target,
    mut to: Target,
    range: Range,
    request: Replay,
    progress: Arc<Progress>,
) -> Result<(), Problem> {
    let store = source.api.store.clone();
    let sequences = logged(&source, &range).await?;
    progress.update(|operation| {
        operation.details.without_body = Some(0);
        operation.details.duplicates = Some(0);
    });
    let is_repeatable = request.idempotency_key.is_some();
    progress.set_rate(request.rate_per_second).await;
    let mut arrivals = Arrivals::new(&to, is_repeatable, progress.clone());
    for some in sequences.chunks(AT_ONCE) {
        progress.check()?;
        let entries = store.log_entries(source.entry(), some).await?;
        let wanted = some.iter().zip(entries).filter_map(|(sequence, entry)| {
            Some((*sequence, entry.filter(|entry| is_wanted(*sequence, entry, &range))?))
        });
        let wanted: Vec<_> = wanted.collect();
        // Reads the bodies of only as many messages as one call enqueues.
        for some in chunks_by_size(&wanted, AT_ONCE, CALL_BYTES_MAX, size_out_of_line) {
            let mut some = some.to_vec();
            if !request.dry_run {
                store.fill_entries(source.entry(), &mut some).await?;
            }
            let anew = replayable(&source, &some, &request, &progress);
            if !request.dry_run {
                arrivals.stamp(&mut to, &anew).await?;
            }
        }
    }
    let mut found = (0, 0);
    progress.update(|operation| {
        found = (operation.matched, operation.details.without_body.unwrap_or_default());
        // Lists old and new positions only for a redrive. A replay can be long.
        operation.details.deliveries.clear();
    });
    match found {
        (0, without_body @ 1..) => Err(wrong_state(format!(
            "the log has {without_body} of them, but no bodies; set log_bodies of the destination, \
             and later deliveries can be replayed"
        ))),
        _ => Ok(()),
    }
}

/// The entries that have a body, as arrivals. Counts all entries.
fn replayable(
    source: &Target,
    entries: &[(Sequence, LogEntry)],
    request: &Replay,
    progress: &Progress,
) -> Vec<(Sequence, Arrival)> {
    let mut anew = Vec::new();
    for (sequence, entry) in entries {
        let Some(content) = &entry.content else { continue };
        let key = request.idempotency_key.as_deref();
        anew.push((*sequence, arrival(&source.name, *sequence, entry, content, key)));
    }
    progress.update(|operation| {
        operation.matched += anew.len() as u64;
        let details = &mut operation.details;
        let without = (entries.len() - anew.len()) as u64;
        details.without_body = Some(details.without_body.unwrap_or_default() + without);
        if let (Some((first, _)), Some((last, _))) = (anew.first(), anew.last()) {
            details.first_sequence.get_or_insert(*first);
            details.last_sequence = Some(*last);
        }
    });
    anew
}

/// The sequences in the log now, in order. So a message that is replayed to the same destination and delivered
/// meanwhile is not replayed again.
async fn logged(source: &Target, range: &Range) -> Result<Vec<Sequence>, Problem> {
    let store = source.api.store.clone();
    let (mut sequences, mut before) = (Vec::new(), None);
    loop {
        let page = store.log_newest(source.entry(), before, ORDER_AT_ONCE).await?;
        let wanted =
            |sequence: &Sequence| (range.from_sequence..=range.to_sequence).contains(sequence);
        sequences.extend(page.sequences.into_iter().filter(wanted));
        before = page.next;
        if before.is_none() {
            sequences.sort_unstable();
            return Ok(sequences);
        }
    }
}

/// The size of the body of an entry, if it is stored out of line.
fn size_out_of_line((_, entry): &(Sequence, LogEntry)) -> usize {
    let out_of_line = entry.content.as_ref().and_then(|content| content.out_of_line);
    out_of_line.map_or(0, |(_, length)| length as usize)
}

fn is_wanted(sequence: Sequence, entry: &LogEntry, range: &Range) -> bool {
    entry.outcome == MessageState::Delivered && range.holds(sequence, Some(entry.settled_ms))
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
        idempotency_key: idempotency_key.map(|key| match source.shard() {
            0 => format!("{key}/{}/{sequence}", entry.epoch),
            shard => format!("{key}/{}/{sequence}/{shard}", entry.epoch),
        }),
        origin: Some(Origin { destination: source.clone(), position }),
        message,
        // A replay has the attempts and the priority of the destination, and no delay.
        options: ProcessingOptions::default(),
        priority: None,
        due: None,
        redrive: None,
        source: None,
        traced: None,
    }
}
