//! `GET /v1/audit`: the actions of operators.

mod entry;
mod record;

use axum::{Extension, Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    request::{Params, Range, limit_of},
    views::{Items, rfc3339},
};
use domain::DestinationName;
use http_server::{invalid::Location, openapi_responses, principal::Principal, problem::Problem};
use store::AuditId;

pub(super) use entry::Entry;
pub(super) use record::{Action, affected, author, current, dry_run, target};
pub use record::{Recorder, record_of_file};

/// The most entries that one call to Redis reads.
const AT_ONCE: usize = 1_000;
/// The most entries that a filter reads for one page.
const LOOKED_AT_MAX: usize = 5_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// Only actions of this caller: the id or the name of its token, or another value of `actor`.
    actor: Option<String>,
    /// Only entries with this action, for example `purge`.
    action: Option<String>,
    /// Only actions that concern this destination.
    destination: Option<DestinationName>,
    /// Only actions since this time (RFC 3339).
    from_time: Option<String>,
    /// Only actions until this time (RFC 3339).
    to_time: Option<String>,
    /// The size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Listing {
    fn takes(&self, entry: &Entry) -> bool {
        self.actor.as_deref().is_none_or(|actor| entry.is_of(actor))
            && self.action.as_deref().is_none_or(|action| action == entry.action)
            && self.destination.as_ref().is_none_or(|name| {
                let of = entry.destination.as_deref().unwrap_or_default();
                of == name.as_str() || of.split('~').next() == Some(name.as_str())
            })
    }
}

/// An action of an operator.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(super) struct View {
    id: String,
    /// When the action was recorded, by the clock of Redis.
    #[schema(format = DateTime)]
    occurred_at: String,
    #[serde(flatten)]
    entry: Entry,
}

/// `GET /v1/audit`
#[utoipa::path(get, path = "/v1/audit", tag = "audit", operation_id = "list_audit",
    params(Listing),
    responses((status = 200, description = "A page, the newest first", body = Items<View>),
        openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    listing: Result<Params<Listing>, Problem>,
) -> Result<Json<Items<View>>, Problem> {
    caller.check_unlimited()?;
    let Params(listing) = listing?;
    let limit = limit_of(listing.limit)?;
    let times = (listing.from_time.as_deref(), listing.to_time.as_deref());
    let Range { from_ms, to_ms, .. } =
        Range::parse(Location::Parameter, None, None, times.0, times.1)?;
    let mut next = Some(AuditId::last_of(to_ms));
    if let Some(cursor) = &listing.cursor {
        let wrong = |()| Problem::invalid_parameter("cursor: is not the next_cursor of a page");
        next = cursor.parse::<AuditId>().map_err(wrong)?.min(AuditId::last_of(to_ms)).into();
    }
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while let Some(last) = next
        && items.len() < limit
        && looked_at < LOOKED_AT_MAX
    {
        let found = api.store.audit_entries(last, from_ms, AT_ONCE).await?;
        looked_at += found.len();
        next = (found.last().filter(|_| found.len() == AT_ONCE)).and_then(|(id, _)| id.before());
        for (id, text) in found {
            let entry = Entry::read(&text);
            if items.len() == limit {
                next = Some(id);
                break;
            }
            if listing.takes(&entry) {
                let occurred_at = rfc3339(id.at_ms);
                items.push(View { id: id.to_string(), occurred_at, entry });
            }
        }
    }
    Ok(Json(Items { items, next_cursor: next.map(|next| next.to_string()) }))
}
