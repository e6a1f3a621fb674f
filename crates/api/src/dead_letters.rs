//! `/v1/destinations/{d}/dead-letters`: list, show and discard dead letters.

use std::sync::Arc;

use axum::{Json, http::HeaderMap, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    bulk::{self, BulkAnswers, Kind, Prefer, Progress},
    request::{At, InDestination, Order, Params, Range, Target, cursor_of, limit_of},
    selection::{Selection, Walk, Wanted},
    views::{Items, Letter},
};
use domain::{Sequence, Stage};
use formats::code::Code;
use http_server::{invalid::Location, openapi_responses, problem::Problem};
use store::DeadLetter;

/// The most dead letters that one call to Redis reads, without long bodies.
const AT_ONCE: usize = 500;
/// The most dead letters that a filter reads for one page.
const LOOKED_AT_MAX: usize = 5_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// Only dead letters with this ordering key; `""`: dead letters without a key.
    key: Option<String>,
    /// Only dead letters of this stage.
    stage: Option<Stage>,
    /// Only dead letters from this sequence on.
    from_sequence: Option<Sequence>,
    /// Only dead letters up to this sequence.
    to_sequence: Option<Sequence>,
    /// Only messages that became dead letters since this time (RFC 3339).
    from_time: Option<String>,
    /// Only messages that became dead letters until this time (RFC 3339).
    to_time: Option<String>,
    /// Only dead letters with this text in the reason, or in the detail of one of the errors.
    error: Option<String>,
    /// The size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// `GET /v1/destinations/{d}/dead-letters`
#[utoipa::path(get, path = "/v1/destinations/{destination}/dead-letters", tag = "dead letters",
    operation_id = "list_dead_letters", params(InDestination, Listing),
    responses((status = 200, description = "A page, by sequence", body = Items<Letter>),
        openapi_responses::ReadsDestination))]
pub(super) async fn list(
    target: Target,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<Letter>>, Problem> {
    let limit = limit_of(listing.limit)?;
    let cursor = cursor_of(listing.cursor.as_deref())?;
    let range = Range::parse(
        Location::Parameter,
        listing.from_sequence,
        listing.to_sequence,
        listing.from_time.as_deref(),
        listing.to_time.as_deref(),
    )?;
    let mut from = cursor.unwrap_or_default().max(range.from_sequence);
    let Listing { key, stage, error, .. } = listing;
    let filter = Wanted { key, stage, range, error };
    let mut items = Vec::new();
    let mut count = 0;
    while items.len() < limit && count < LOOKED_AT_MAX && from <= range.to_sequence {
        let max = AT_ONCE.min(limit - items.len());
        let looked_at = target.api.store.dead_letters_from(target.entry(), from, max).await?;
        let (letters, Some(last)) = looked_at else {
            return Ok(Json(Items { items, next_cursor: None }));
        };
        from = last + 1;
        count += max;
        let wanted = letters.iter().filter(|letter| filter.takes(letter));
        items.extend(wanted.map(|letter| Letter::of(letter, None)));
    }
    let next_cursor = (from <= range.to_sequence).then(|| from.to_string());
    Ok(Json(Items { items, next_cursor }))
}

/// `GET /v1/destinations/{d}/dead-letters/{sequence}`
#[utoipa::path(get, path = "/v1/destinations/{destination}/dead-letters/{sequence}", tag = "dead letters",
    operation_id = "show_dead_letter", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the dead letter")),
    responses((status = 200, description = "The dead letter, with its body", body = Letter),
        openapi_responses::ReadsMessage))]
pub(super) async fn show(At(target, sequence): At) -> Result<Json<Letter>, Problem> {
    let letter = whole_letter(&target, sequence).await?;
    let letter = letter.ok_or_else(|| unknown(sequence))?;
    Ok(Json(Letter::of(&letter, Some(target.api.json_depth_max))))
}

/// The dead letter with this sequence, with its body.
pub(super) async fn whole_letter(
    target: &Target,
    sequence: Sequence,
) -> Result<Option<DeadLetter>, Problem> {
    let store = &target.api.store;
    let Some(letter) = store.dead_letter(target.entry(), sequence).await? else { return Ok(None) };
    let mut letters = [letter];
    store.fill_letters(target.entry(), &mut letters).await?;
    let [letter] = letters;
    Ok(Some(letter))
}

/// A dead letter that was discarded.
#[derive(Serialize, ToSchema)]
pub(super) struct Discarded {
    sequence: Sequence,
    state: DiscardState,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DiscardState {
    Discarded,
}

/// `DELETE /v1/destinations/{d}/dead-letters/{sequence}`
#[utoipa::path(delete, path = "/v1/destinations/{destination}/dead-letters/{sequence}", tag = "dead letters",
    operation_id = "discard_dead_letter", params(InDestination, ("sequence" = u64, Path, description = "The sequence of the dead letter")),
    responses((status = 200, description = "It is discarded", body = Discarded),
        openapi_responses::ChangesMessage))]
pub(super) async fn discard_one(At(mut target, sequence): At) -> Result<Json<Discarded>, Problem> {
    match target.discard(&[sequence]).await? {
        0 => Err(unknown(sequence)),
        _ => Ok(Json(Discarded { sequence, state: DiscardState::Discarded })),
    }
}

/// `POST /v1/destinations/{d}/dead-letters/discard`
#[utoipa::path(post, path = "/v1/destinations/{destination}/dead-letters/discard", tag = "dead letters",
    operation_id = "discard",
    params(InDestination, Prefer),
    request_body = Selection,
    responses(BulkAnswers, openapi_responses::Changes))]
pub(super) async fn discard(
    headers: HeaderMap,
    Order(target, selection): Order<Selection>,
) -> Result<Response, Problem> {
    if selection.rate_per_second.is_some() {
        return Err(Problem::invalid_field(
            "rate_per_second: only a redrive has one; leave it out",
        ));
    }
    let dry_run = selection.dry_run;
    let walk = Walk::begin(&target, selection).await?;
    let discarded = target.clone();
    let work = |progress| discard_all(discarded, walk, dry_run, progress);
    bulk::run(&target, Kind::Discard, dry_run, &headers, work).await
}

/// Discards the selected dead letters.
async fn discard_all(
    mut target: Target,
    mut walk: Walk,
    dry_run: bool,
    progress: Arc<Progress>,
) -> Result<(), Problem> {
    progress.update(|operation| operation.details.gone = Some(0));
    while let Some(step) = walk.next(&target).await? {
        progress.check()?;
        let sequences: Vec<Sequence> =
            step.letters.iter().map(|letter| letter.message.position.sequence).collect();
        let discarded = match dry_run || sequences.is_empty() {
            true => 0,
            false => target.discard(&sequences).await?,
        };
        // Another request may have discarded some of them first.
        let faster = if dry_run { 0 } else { sequences.len() as u64 - discarded };
        progress.update(|operation| {
            operation.matched += sequences.len() as u64;
            operation.affected += discarded;
            let gone = operation.details.gone.unwrap_or_default();
            operation.details.gone = Some(gone + step.missing + faster);
        });
    }
    Ok(())
}

fn unknown(sequence: Sequence) -> Problem {
    let detail =
        format!("{sequence} is not a dead letter; it was redriven, discarded, or never was one");
    Problem::new(Code::UnknownMessage, detail)
}
