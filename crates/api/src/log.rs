//! `GET /v1/destinations/{d}/log`: the outcomes of the last messages.

use std::collections::HashSet;

use axum::Json;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    request::{InDestination, Params, Range, Target, cursor_of, limit_of},
    views::{Gone, Items, Left, Unreadable},
};
use domain::{Sequence, State as MessageState};
use http_server::{invalid::Location, openapi_responses, problem::Problem};
use store::LogEntry;

/// The most log entries that one call to Redis reads. Each may include a body.
const AT_ONCE: usize = 100;

/// The most log entries that a filter reads for one page.
const LOOKED_AT_MAX: usize = 5_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// Only messages with this ordering key; `""`: messages without a key.
    key: Option<String>,
    /// Only messages that left with this state.
    state: Option<MessageState>,
    /// Only messages from this sequence on.
    from_sequence: Option<Sequence>,
    /// Only messages up to this sequence.
    to_sequence: Option<Sequence>,
    /// Only messages that left since this time (RFC 3339).
    from_time: Option<String>,
    /// Only messages that left until this time (RFC 3339).
    to_time: Option<String>,
    /// The size of a page.
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

    /// True without a filter. The list then also shows entries that cannot be read.
    fn takes_all(&self) -> bool {
        let Listing { key, state, from_time, to_time, .. } = self;
        key.is_none() && state.is_none() && from_time.is_none() && to_time.is_none()
    }

    fn takes(&self, range: &Range, sequence: Sequence, entry: &Result<LogEntry, String>) -> bool {
        let Ok(entry) = entry else { return self.takes_all() && range.holds(sequence, None) };
        range.holds(sequence, Some(entry.settled_ms))
            && self.state.is_none_or(|state| state == entry.outcome)
            && self.key.as_deref().is_none_or(|key| key == entry.key.as_deref().unwrap_or_default())
    }
}

/// `GET /v1/destinations/{d}/log`
#[utoipa::path(get, path = "/v1/destinations/{destination}/log", tag = "history",
    operation_id = "list_log",
    params(InDestination, Listing),
    responses((status = 200, description = "The newest first", body = Items<Left>),
        openapi_responses::ReadsDestination))]
pub(super) async fn log(
    target: Target,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<Left>>, Problem> {
    let (limit, range) = (limit_of(listing.limit)?, listing.range()?);
    let mut before = cursor_of(listing.cursor.as_deref())?;
    let (mut items, mut count) = (Vec::new(), 0);
    loop {
        let max = limit - items.len();
        let newest = target.api.store.log_newest(target.entry(), before, max).await?;
        count += newest.sequences.len();
        before = newest.next;
        for some in newest.sequences.chunks(AT_ONCE) {
            let entries = target.api.store.log_found(target.entry(), some).await?;
            let found = some.iter().zip(entries);
            let mut found: Vec<(Sequence, Result<LogEntry, String>)> =
                found.filter_map(|(sequence, entry)| Some((*sequence, entry?))).collect();
            found.retain(|(sequence, entry)| listing.takes(&range, *sequence, entry));
            let dead = letters_among(&target, &found).await?;
            items.extend(found.into_iter().map(|(sequence, entry)| match entry {
                Ok(entry) => Left::Gone(Gone::of(sequence, &entry, dead.contains(&sequence))),
                Err(damaged) => Left::Damaged(Unreadable { shard: None, sequence, damaged }),
            }));
        }
        if before.is_none() || items.len() >= limit || count >= LOOKED_AT_MAX {
            return Ok(Json(Items { items, next_cursor: before.map(|next| next.to_string()) }));
        }
    }
}

/// The messages that are still dead letters, of those that left as dead letters.
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
