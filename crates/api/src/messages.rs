//! `/v1/destinations/{d}/messages`: list pending messages, show one, cancel one.

use std::collections::HashMap;

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::Response,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    dead_letters::whole_letter,
    request::{At, InDestination, Params, Range, Target, cursor_of, limit_of},
    views::{Gone, Items, Letter, Pending},
    withdraw::{self, Withdrawal, name, wrong_state},
};
use domain::{DestinationName, OutOfLine, Position, Sequence, Tombstone, message};
use formats::code::Code;
use http_server::{invalid::Location, openapi_responses, principal::Principal, problem::Problem};
use store::{Listed, Which};

/// The most pages of the store that a filter reads for one answer.
const PAGES_MAX: usize = 50;
/// The most messages in one partition that a search over all destinations reads. Its destinations share this number
/// equally.
const SEARCHED_IN_PARTITION: u64 = 10_000;
/// The most destinations that such a search reads at the same time.
const SEARCHES_AT_ONCE: usize = 8;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// Only messages in this state.
    state: Option<domain::State>,
    /// Only messages with this ordering key; `""`: messages without a key.
    key: Option<String>,
    /// Only messages from this sequence on.
    from_sequence: Option<Sequence>,
    /// Only messages up to this sequence.
    to_sequence: Option<Sequence>,
    /// Only messages received since this time (RFC 3339).
    from_time: Option<String>,
    /// Only messages received until this time (RFC 3339).
    to_time: Option<String>,
    /// Only messages with this text in the detail of one of the errors.
    error: Option<String>,
    /// The approximate size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Listing {
    fn range(&self) -> Result<Range, Problem> {
        let times = (self.from_time.as_deref(), self.to_time.as_deref());
        let (from, to) = (self.from_sequence, self.to_sequence);
        Range::parse(Location::Parameter, from, to, times.0, times.1)
    }

    /// True if the filter has no text, or one of the errors of the message contains the text.
    fn takes_errors_of(&self, one: &Listed) -> bool {
        let Some(text) = &self.error else { return true };
        let message = &one.message;
        message.attempts.errors.iter().any(|(_, error)| error.detail.contains(text))
            || message.damaged.as_ref().is_some_and(|damaged| damaged.contains(text))
    }
}

/// `GET /v1/destinations/{d}/messages`
#[utoipa::path(get, path = "/v1/destinations/{destination}/messages", tag = "messages",
    operation_id = "list_messages", params(InDestination, Listing),
    responses((status = 200, description = "A page of pending messages", body = Items<Pending>),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(
    target: Target,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<Pending>>, Problem> {
    if let Some(state @ (domain::State::Delivering | domain::State::Delivered)) = listing.state {
        let detail = format!(
            "state: messages that are {} cannot be listed here; those in delivery are \
             listed as ready, and those that are gone are in the log",
            name(state)
        );
        return Err(Problem::invalid_parameter(detail));
    }
    let (limit, range) = (limit_of(listing.limit)?, listing.range()?);
    let mut which = Which {
        state: listing.state,
        key: listing.key.clone(),
        from: range.from_sequence,
        cursor: cursor_of(listing.cursor.as_deref())?,
        limit,
    };
    let now_ms = target.api.store.server_time_ms().await?;
    let mut items = Vec::new();
    // A page of the store may hold few matching messages, or none. So this reads more pages, up to a maximum.
    for _ in 0..PAGES_MAX {
        let page = target.api.store.pending(target.entry(), &which).await?;
        let wanted = page.items.iter().filter(|one| {
            range.holds(one.message.position.sequence, one.message.message.received())
                && listing.takes_errors_of(one)
        });
        items.extend(wanted.map(|one| Pending::of(target.entry(), one, now_ms, None)));
        which.cursor = page.next;
        if page.next.is_none() || items.len() >= limit {
            break;
        }
        which.limit = limit - items.len();
    }
    Ok(Json(Items { items, next_cursor: which.cursor.map(|next| next.to_string()) }))
}

/// A message: pending, gone, or a dead letter whose log entry has left the log.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Message)]
pub(super) enum Shown {
    Pending(Box<Pending>),
    Gone(Gone),
    Letter(Box<Letter>),
}

impl Shown {
    fn id(&self) -> &str {
        match self {
            Shown::Pending(pending) => &pending.common.id,
            Shown::Gone(gone) => &gone.id,
            Shown::Letter(letter) => &letter.common.id,
        }
    }
}

/// `GET /v1/destinations/{d}/messages/{sequence}`
#[utoipa::path(get, path = "/v1/destinations/{destination}/messages/{sequence}", tag = "messages",
    operation_id = "show_message", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the message")),
    responses((status = 200, description = "The message, or what became of it", body = Shown),
        openapi_responses::ReadsMessage))]
pub(super) async fn show(At(target, sequence): At) -> Result<Json<Shown>, Problem> {
    shown(&target, sequence).await.map(Json)
}

/// `GET /v1/destinations/{d}/messages/by-id/{id}`
#[utoipa::path(get, path = "/v1/destinations/{destination}/messages/by-id/{id}", tag = "messages",
    operation_id = "show_message_by_id", params(InDestination,
        ("id" = String, Path, description = "The id of the message; of several with the same id, the last")),
    responses((status = 200, description = "The message, or what became of it", body = Shown),
        openapi_responses::ReadsMessage))]
pub(super) async fn show_by_id(
    target: Target,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Shown>, Problem> {
    message::check_text("id", &id, message::ID_BYTES_MAX).map_err(Problem::invalid_parameter)?;
    let ids_max = target.entry().destination.ids_max;
    let unknown = |detail: String| Problem::new(Code::UnknownMessage, detail);
    if ids_max == 0 {
        let detail =
            "messages of this destination are not found by their ids: its ids_max is 0; raise it";
        return Err(unknown(detail.to_owned()));
    }
    with_id(&target, &id, u64::MAX).await?.map(Json).ok_or_else(|| {
        unknown(format!(
            "no message with this id is among the last {ids_max} (ids_max) of this destination that are pending or in \
             its log"
        ))
    })
}

/// The last message with this id, among the last `max`.
async fn with_id(target: &Target, id: &str, max: u64) -> Result<Option<Shown>, Problem> {
    let sequence = target.api.store.stamped_with_id(target.entry(), id, max).await?;
    let Some(sequence) = sequence else { return Ok(None) };
    match shown(target, sequence).await {
        // After Redis lost data, the sequence may have been stamped again.
        Ok(shown) => Ok(Some(shown).filter(|shown| shown.id() == id)),
        // The entry has left the log meanwhile.
        Err(problem) if problem.code == Code::UnknownMessage => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The messages with an id, one for each destination that has such a message.
#[derive(Serialize, ToSchema)]
pub(super) struct MessagesFound {
    items: Vec<MessageFound>,
}

/// A message, with its destination.
#[derive(Serialize, ToSchema)]
struct MessageFound {
    destination: DestinationName,
    message: Shown,
}

/// `GET /v1/messages/by-id/{id}`
#[utoipa::path(get, path = "/v1/messages/by-id/{id}", tag = "messages",
    operation_id = "find_messages_by_id",
    params(("id" = String, Path, description = "The id of the message")),
    responses((status = 200, description = "The last message with this id of each destination that has one", body = MessagesFound),
        openapi_responses::Reads))]
pub(super) async fn find_by_id(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<MessagesFound>, Problem> {
    message::check_text("id", &id, message::ID_BYTES_MAX).map_err(Problem::invalid_parameter)?;
    let all = api.catalog.all();
    let mut in_partition: HashMap<u16, u64> = HashMap::new();
    for entry in &all {
        *in_partition.entry(entry.partition).or_default() += 1;
    }
    let seen = all.into_iter().filter(|entry| caller.check(&entry.destination.name).is_ok());
    let searches = seen.map(|entry| {
        let share = in_partition.get(&entry.partition).copied().unwrap_or(1);
        let (api, id) = (&api, &id);
        async move {
            let max = SEARCHED_IN_PARTITION.div_ceil(share);
            let target = Target::of(api, entry);
            let found = with_id(&target, id, max).await?;
            Ok::<_, Problem>(
                found.map(|message| MessageFound { destination: target.name, message }),
            )
        }
    });
    let found: Vec<Option<MessageFound>> =
        stream::iter(searches).buffered(SEARCHES_AT_ONCE).try_collect::<Vec<_>>().await?;
    Ok(Json(MessagesFound { items: found.into_iter().flatten().collect() }))
}

/// The message with this sequence, or its outcome.
async fn shown(target: &Target, sequence: Sequence) -> Result<Shown, Problem> {
    let (api, store) = (&target.api, &target.api.store);
    let mut listed = store.listed(target.entry(), &[sequence]).await?;
    if let Some(one) = listed.first_mut() {
        if one.message.out_of_line != OutOfLine::default() {
            // Reads the message again, with its bodies. It may have left meanwhile.
            let whole = store.messages(target.entry(), &[sequence]).await?;
            let Some(message) = whole.into_iter().next().flatten() else {
                return Err(unknown(target, sequence).await?);
            };
            if message.damaged.is_some() {
                one.state = domain::State::Damaged;
            }
            one.message = message;
        }
        let whole = Some(api.json_depth_max);
        let now_ms = store.server_time_ms().await?;
        let shown = Pending::of(target.entry(), one, now_ms, whole);
        return Ok(Shown::Pending(Box::new(shown)));
    }
    let letter = whole_letter(target, sequence).await?;
    let entries = store.log_entries(target.entry(), &[sequence]).await?;
    match (entries.into_iter().next().flatten(), letter) {
        (Some(entry), letter) => Ok(Shown::Gone(Gone::of(sequence, &entry, letter.is_some()))),
        (None, Some(letter)) => {
            let shown = Letter::of(&letter, Some(api.json_depth_max));
            Ok(Shown::Letter(Box::new(shown)))
        }
        (None, None) => Err(unknown(target, sequence).await?),
    }
}

/// `DELETE /v1/destinations/{d}/messages/{sequence}`
#[utoipa::path(delete, path = "/v1/destinations/{destination}/messages/{sequence}", tag = "messages",
    operation_id = "cancel_message", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the message")),
    responses(
        (status = 200, description = "It is cancelled", body = Withdrawal),
        (status = 202, description = "It leaves when its attempt has ended", body = Withdrawal),
        openapi_responses::ChangesMessage))]
pub(super) async fn cancel(At(mut target, sequence): At) -> Result<Response, Problem> {
    cancel_one(&mut target, sequence, None).await
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ByKey {
    /// The idempotency key of the message.
    idempotency_key: String,
}

/// `DELETE /v1/destinations/{d}/messages?idempotency_key=…`
#[utoipa::path(delete, path = "/v1/destinations/{destination}/messages", tag = "messages",
    operation_id = "cancel_message_by_idempotency_key", params(InDestination, ByKey),
    responses(
        (status = 200, description = "It is cancelled", body = Withdrawal),
        (status = 202, description = "It leaves when its attempt has ended", body = Withdrawal),
        openapi_responses::ChangesMessage))]
pub(super) async fn cancel_by_key(
    mut target: Target,
    Params(ByKey { idempotency_key: key }): Params<ByKey>,
) -> Result<Response, Problem> {
    message::check_text("idempotency_key", &key, message::IDEMPOTENCY_KEY_BYTES_MAX)
        .map_err(Problem::invalid_parameter)?;
    let position = target.api.store.stamped_under(target.entry(), &key).await?;
    let Some(position) = position else {
        let detail = "no message is known under this idempotency key; keys are forgotten after \
                      the destination's idempotency_window_ms";
        return Err(Problem::new(Code::UnknownMessage, detail));
    };
    cancel_one(&mut target, position.sequence, Some(position)).await
}

/// Cancels a message. With `position`, only if the message at this sequence still has this position: after Redis lost
/// data, the sequence may belong to another message.
async fn cancel_one(
    target: &mut Target,
    sequence: Sequence,
    position: Option<Position>,
) -> Result<Response, Problem> {
    let store = target.api.store.clone();
    let found = store.listed(target.entry(), &[sequence]).await?;
    let found = found.into_iter().next().map(|listed| listed.message);
    match found.filter(|found| position.is_none_or(|position| position == found.position)) {
        Some(found) if found.damaged.is_some() => {
            let lane = store.lane_holding(target.entry(), sequence).await?;
            let lane = lane.ok_or_else(|| no_lane(sequence))?;
            withdraw::one(target, Tombstone::Cancelled, "cancelled", (lane, sequence)).await
        }
        Some(found) => {
            let lane = target.entry().destination.lane_of(found.message.key.as_deref(), sequence);
            withdraw::one(target, Tombstone::Cancelled, "cancelled", (lane, sequence)).await
        }
        None => match withdraw::progress(target, sequence).await? {
            withdraw::Progress::Ended(state) => Err(wrong_state(format!(
                "message {sequence} has left already: it was {}",
                name(state)
            ))),
            _ => Err(unknown(target, sequence).await?),
        },
    }
}

fn no_lane(sequence: Sequence) -> Problem {
    wrong_state(format!("message {sequence} is damaged, and no lane holds it"))
}

/// The problem for a sequence without a known message, with the reason.
pub(super) async fn unknown(target: &Target, sequence: Sequence) -> Result<Problem, Problem> {
    withdraw::check_stamped(target, sequence).await?;
    let log_max = target.entry().destination.log_max;
    let detail = format!(
        "{sequence} has left, and the log, which keeps the last {log_max} (log_max), no longer \
         has it"
    );
    Ok(Problem::new(Code::UnknownMessage, detail))
}
