//! `/v1/destinations/{d}/messages`: list pending messages, show one, cancel one.

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::{
    Api,
    dead_letters::whole_letter,
    request::{Target, cursor_of, limit_of, query_of, sequence_of},
    views::{Gone, Items, Letter, Pending},
    withdraw::{self, name, wrong_state},
};
use crate::{
    domain::{self, Apart, Position, Sequence, Tombstone, message},
    store::{Listed, Which},
    wire::{code::Code, problem::Problem},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    state: Option<domain::State>,
    key: Option<String>,
    #[serde(default)]
    from: Sequence,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// `GET /v1/destinations/{d}/messages`
pub(super) async fn list(
    State(api): State<Api>,
    Path(destination): Path<String>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Items<Pending>>, Problem> {
    let target = Target::find(&api, &destination).await?;
    let listing = query_of(query)?;
    if let Some(state @ (domain::State::Delivering | domain::State::Delivered)) = listing.state {
        let detail = format!(
            "state: messages that are {} cannot be listed here; those in delivery are \
             listed as ready, and those that are gone are in the log",
            name(state)
        );
        return Err(Problem::invalid_field(detail));
    }
    let which = Which {
        state: listing.state,
        key: listing.key,
        from: listing.from,
        cursor: cursor_of(listing.cursor.as_deref())?,
        limit: limit_of(listing.limit)?,
    };
    let page = api.store.pending(target.entry(), &which).await?;
    let now_ms = now(&api).await?;
    let shown = |one: &Listed| Pending::of(target.entry(), one, now_ms, None);
    Ok(Json(Items {
        items: page.items.iter().map(shown).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// `GET /v1/destinations/{d}/messages/{sequence}`
pub(super) async fn show(
    State(api): State<Api>,
    Path((destination, sequence)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let target = Target::find(&api, &destination).await?;
    let sequence = sequence_of(&sequence)?;
    let store = &api.store;
    let mut listed = store.listed(target.entry(), &[sequence]).await?;
    if let Some(one) = listed.first_mut() {
        if one.message.apart != Apart::default() {
            // Read again with its bodies. It may have left meanwhile.
            let whole = store.messages(target.entry(), &[sequence]).await?;
            let Some(message) = whole.into_iter().next().flatten() else {
                return Err(unknown(&target, sequence).await?);
            };
            if message.damaged.is_some() {
                one.state = domain::State::Damaged;
            }
            one.message = message;
        }
        let whole = Some(api.json_depth_max);
        let shown = Pending::of(target.entry(), one, now(&api).await?, whole);
        return Ok(Json(shown).into_response());
    }
    let letter = whole_letter(&target, sequence).await?;
    let entries = store.log_entries(target.entry(), &[sequence]).await?;
    match (entries.into_iter().next().flatten(), letter) {
        (Some(entry), letter) => {
            Ok(Json(Gone::of(sequence, &entry, letter.is_some())).into_response())
        }
        (None, Some(letter)) => {
            Ok(Json(Letter::of(&letter, Some(api.json_depth_max))).into_response())
        }
        (None, None) => Err(unknown(&target, sequence).await?),
    }
}

/// `DELETE /v1/destinations/{d}/messages/{sequence}`
pub(super) async fn cancel(
    State(api): State<Api>,
    Path((destination, sequence)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let sequence = sequence_of(&sequence)?;
    cancel_one(&mut target, sequence, None).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByKey {
    idempotency_key: String,
}

/// `DELETE /v1/destinations/{d}/messages?idempotency_key=…`
pub(super) async fn cancel_by_key(
    State(api): State<Api>,
    Path(destination): Path<String>,
    query: Result<Query<ByKey>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let ByKey { idempotency_key: key } = query_of(query)?;
    message::check_text("idempotency_key", &key, message::IDEMPOTENCY_KEY_BYTES_MAX)
        .map_err(Problem::invalid_field)?;
    let position = api.store.stamped_under(target.entry(), &key).await?;
    let Some(position) = position else {
        let detail = "no message is known under this idempotency key; keys are forgotten after \
                      the destination's idempotency_window_ms";
        return Err(Problem::new(Code::UnknownMessage, detail));
    };
    cancel_one(&mut target, position.sequence, Some(position)).await
}

/// Cancels a message. With `position`, only if it still is the one at that position: after Redis
/// lost data, its sequence may have been stamped again.
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

/// The problem for a sequence about which nothing is known, and why.
async fn unknown(target: &Target, sequence: Sequence) -> Result<Problem, Problem> {
    withdraw::check_stamped(target, sequence).await?;
    let log_max = target.entry().destination.log_max;
    let detail = format!(
        "{sequence} has left, and the log, which keeps the last {log_max} (log_max), no longer \
         has it"
    );
    Ok(Problem::new(Code::UnknownMessage, detail))
}

async fn now(api: &Api) -> Result<u64, Problem> {
    Ok(api.store.server_time_ms().await?)
}
