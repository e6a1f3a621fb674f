//! `/v1/destinations/{d}/dead-letters`: list, show and discard dead letters.

use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api, after_partial_success, draining,
    request::{Target, cursor_of, limit_of, query_of, read_optional, sequence_of},
    selection::{Filter, Selection, Walk},
    views::{Items, Letter},
};
use crate::{
    domain::{Sequence, Stage},
    store::DeadLetter,
    wire::{code::Code, problem::Problem},
};

/// Dead letters that are read together, without long bodies.
const AT_ONCE: usize = 500;
/// The most dead letters that a filter reads for one page.
const LOOKED_AT_MAX: usize = 5_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    from: Option<Sequence>,
    limit: Option<usize>,
    cursor: Option<String>,
    key: Option<String>,
    reason: Option<String>,
    stage: Option<Stage>,
}

/// `GET /v1/destinations/{d}/dead-letters`
pub(super) async fn list(
    State(api): State<Api>,
    Path(destination): Path<String>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Items<Letter>>, Problem> {
    let target = Target::find(&api, &destination).await?;
    let listing = query_of(query)?;
    let limit = limit_of(listing.limit)?;
    let cursor = cursor_of(listing.cursor.as_deref())?;
    let mut from = cursor.unwrap_or_default().max(listing.from.unwrap_or_default());
    let filter = Filter {
        key: listing.key,
        stage: listing.stage,
        error: listing.reason,
        ..Filter::default()
    };
    let mut items = Vec::new();
    let mut count = 0;
    while items.len() < limit && count < LOOKED_AT_MAX {
        let max = AT_ONCE.min(limit - items.len());
        let looked_at = api.store.dead_letters_from(target.entry(), from, max).await?;
        let (letters, Some(last)) = looked_at else {
            return Ok(Json(Items { items, next_cursor: None }));
        };
        from = last + 1;
        count += max;
        let wanted = letters.iter().filter(|letter| filter.takes(letter));
        items.extend(wanted.map(|letter| Letter::of(letter, None)));
    }
    Ok(Json(Items { items, next_cursor: Some(from.to_string()) }))
}

/// `GET /v1/destinations/{d}/dead-letters/{sequence}`
pub(super) async fn show(
    State(api): State<Api>,
    Path((destination, sequence)): Path<(String, String)>,
) -> Result<Json<Letter>, Problem> {
    let target = Target::find(&api, &destination).await?;
    let sequence = sequence_of(&sequence)?;
    let letter = whole_letter(&target, sequence).await?;
    let letter = letter.ok_or_else(|| unknown(sequence))?;
    Ok(Json(Letter::of(&letter, Some(api.json_depth_max))))
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

/// `DELETE /v1/destinations/{d}/dead-letters/{sequence}`
pub(super) async fn discard_one(
    State(api): State<Api>,
    Path((destination, sequence)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let sequence = sequence_of(&sequence)?;
    match target.discard(&[sequence]).await? {
        0 => Err(unknown(sequence)),
        discarded => Ok(Json(json!({"sequence": sequence, "discarded": discarded}))),
    }
}

/// `POST /v1/destinations/{d}/dead-letters/discard`
pub(super) async fn discard(
    State(api): State<Api>,
    Path(destination): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let mut target = Target::find(&api, &destination).await?;
    let selection: Selection = read_optional(body, api.batch_bytes_max)?;
    let dry_run = selection.dry_run;
    let mut walk = Walk::begin(&target, selection).await?;
    let (mut found, mut discarded) = (0, 0);
    let walked = async {
        while let Some(step) = walk.next(&target).await? {
            if api.stop.is_cancelled() {
                return Err(draining());
            }
            found += step.letters.len() as u64;
            if !dry_run && !step.letters.is_empty() {
                let sequences: Vec<Sequence> =
                    step.letters.iter().map(|letter| letter.message.position.sequence).collect();
                discarded += target.discard(&sequences).await?;
            }
        }
        Ok(())
    };
    let done = walked.await;
    done.map_err(|problem| after_partial_success(problem, &[("discarded", discarded)]))?;
    match dry_run {
        true => Ok(Json(json!({"would_discard": found}))),
        false => Ok(Json(json!({"discarded": discarded}))),
    }
}

fn unknown(sequence: Sequence) -> Problem {
    let detail =
        format!("{sequence} is not a dead letter; it was redriven, discarded, or never was one");
    Problem::new(Code::UnknownMessage, detail)
}
