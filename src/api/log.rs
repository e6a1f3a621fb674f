//! `GET /v1/destinations/{d}/log`: the outcome of the last messages.

use std::collections::HashSet;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::Deserialize;

use super::{
    Api,
    request::{Target, cursor_of, limit_of, query_of},
    views::{Gone, Items, Left},
};
use crate::{
    domain::{Sequence, State as MessageState},
    store::LogEntry,
    wire::problem::Problem,
};

/// Entries that are read together; each may include a body.
const AT_ONCE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    limit: Option<usize>,
    cursor: Option<String>,
}

/// `GET /v1/destinations/{d}/log`
pub(super) async fn log(
    State(api): State<Api>,
    Path(destination): Path<String>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Json<Items<Left>>, Problem> {
    let target = Target::find(&api, &destination).await?;
    let listing = query_of(query)?;
    let limit = limit_of(listing.limit)?;
    let before = cursor_of(listing.cursor.as_deref())?;
    let newest = api.store.log_newest(target.entry(), before, limit).await?;
    let mut items = Vec::with_capacity(newest.sequences.len());
    for some in newest.sequences.chunks(AT_ONCE) {
        let entries = api.store.log_found(target.entry(), some).await?;
        let found = some.iter().zip(entries);
        let found: Vec<(Sequence, Result<LogEntry, String>)> =
            found.filter_map(|(sequence, entry)| Some((*sequence, entry?))).collect();
        let dead = letters_among(&target, &found).await?;
        items.extend(found.into_iter().map(|(sequence, entry)| match entry {
            Ok(entry) => Left::Gone(Gone::of(sequence, &entry, dead.contains(&sequence))),
            Err(damaged) => Left::Damaged { sequence, damaged },
        }));
    }
    Ok(Json(Items { items, next_cursor: newest.next.map(|next| next.to_string()) }))
}

/// Which of the dead-lettered messages are still dead letters.
async fn letters_among(
    target: &Target,
    entries: &[(Sequence, Result<LogEntry, String>)],
) -> Result<HashSet<Sequence>, Problem> {
    let store = target.api.store.clone();
    let skipped: Vec<Sequence> = entries
        .iter()
        .filter(|(_, entry)| {
            entry.as_ref().is_ok_and(|entry| entry.outcome == MessageState::DeadLettered)
        })
        .map(|(sequence, _)| *sequence)
        .collect();
    let dead = store.are_dead(target.entry(), &skipped).await?;
    Ok(skipped.into_iter().zip(dead).filter(|(_, dead)| *dead).map(|(one, _)| one).collect())
}
