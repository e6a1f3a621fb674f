//! `/v1/destinations`: list, show and remove destinations. `define.rs` creates and changes them.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    Api, audit,
    request::{InDestination, Params, Target, limit_of},
    views::Items,
};
use domain::{Destination, DestinationName, name::SHARDS_MAX};
use formats::code::Code;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{CatalogEntry, Paused, StoreError};

/// The most shards that are looked up at the same time.
const LOOKED_UP_AT_ONCE: usize = 16;

/// The parameters of a list that is sorted by name.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// The size of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub(super) limit: Option<usize>,
    /// The `next_cursor` of the page before.
    pub(super) cursor: Option<String>,
}

/// The items after the cursor, and the next cursor. A cursor is the name of the last item of the page before.
pub(super) fn page_of<'a, T>(
    all: &'a [Arc<T>],
    listing: &Listing,
    name: impl Fn(&T) -> &str,
) -> Result<(&'a [Arc<T>], Option<String>), Problem> {
    let limit = limit_of(listing.limit)?;
    let cursor = listing.cursor.as_deref().unwrap_or_default();
    let begin = all.partition_point(|one| !cursor.is_empty() && name(one) <= cursor);
    let page = &all[begin..all.len().min(begin + limit)];
    let is_last = begin + page.len() == all.len();
    let next = page.last().filter(|_| !is_last).map(|last| name(last).to_owned());
    Ok((page, next))
}

/// A destination: its definition, with secrets masked, and the fields that Reseq adds.
#[derive(Serialize)]
pub(super) struct View {
    #[serde(flatten)]
    definition: Destination,
    version: u64,
    partition: u16,
    defined_in_file: bool,
    paused: Paused,
}

impl View {
    pub(super) fn of(api: &Api, entry: &CatalogEntry) -> View {
        View {
            definition: entry.definition().masked(),
            version: entry.version,
            partition: entry.partition,
            defined_in_file: api.in_file.controls(&entry.destination.name),
            paused: entry.paused,
        }
    }

    /// The answer, with the version as its ETag.
    pub(super) fn response(self) -> Response {
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.version)).ok();
        ([(header::ETAG, tag.unwrap_or(HeaderValue::from_static("")))], Json(self)).into_response()
    }
}

/// Written by hand: the schema of a definition allows no other fields, so it cannot be a part of `allOf`.
impl PartialSchema for View {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = Destination::schema() else {
            return Destination::schema();
        };
        object.description = Some("A destination: its definition, and what Reseq adds.".into());
        let fields = [
            ("version", u64::schema()),
            ("partition", u16::schema()),
            ("defined_in_file", bool::schema()),
            ("paused", RefOr::Ref(utoipa::openapi::Ref::from_schema_name(Paused::name()))),
        ];
        for (name, schema) in fields {
            object.properties.insert(name.to_owned(), schema);
            object.required.push(name.to_owned());
        }
        RefOr::T(Schema::Object(object))
    }
}

impl ToSchema for View {
    fn name() -> std::borrow::Cow<'static, str> {
        "Destination".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Destination::schemas(schemas);
        schemas.push((Paused::name().into(), Paused::schema()));
    }
}

/// The destinations that a caller may see, by name. Shards are parts of their destinations.
pub(super) fn visible(api: &Api, caller: &Principal) -> Vec<Arc<CatalogEntry>> {
    let mut all = api.catalog.all();
    all.retain(|entry| !api.catalog.is_in_destination(&entry.destination.name));
    if !caller.is_unlimited() {
        all.retain(|entry| caller.covers(&entry.destination.name));
    }
    all
}

/// `GET /v1/destinations`
#[utoipa::path(get, path = "/v1/destinations", tag = "destinations",
    operation_id = "list_destinations", params(Listing),
    responses((status = 200, description = "A page, by name", body = Items<View>),
        openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Params(listing): Params<Listing>,
) -> Result<Json<Items<View>>, Problem> {
    let all = visible(&api, &caller);
    let (page, next_cursor) = page_of(&all, &listing, |entry| entry.destination.name.as_str())?;
    let items = page.iter().map(|entry| View::of(&api, entry)).collect();
    Ok(Json(Items { items, next_cursor }))
}

/// `GET /v1/destinations/{d}`
#[utoipa::path(get, path = "/v1/destinations/{destination}", tag = "destinations",
    operation_id = "show_destination",
    params(InDestination),
    responses((status = 200, description = "The definition", body = View,
            headers(("ETag" = String, description = "For `If-Match`"))),
        openapi_responses::ReadsDestination))]
pub(super) async fn show(target: Target) -> Result<Response, Problem> {
    Ok(View::of(&target.api, target.entry()).response())
}

/// The query parameters of a removal.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    /// True: also removes its pending messages and dead letters.
    #[serde(default)]
    force: bool,
}

/// A destination that was removed.
#[derive(Serialize, ToSchema)]
pub(super) struct Removed {
    removed: DestinationName,
    /// How many pending messages were removed with the destination.
    removed_messages: u64,
}

/// `DELETE /v1/destinations/{d}`
#[utoipa::path(delete, path = "/v1/destinations/{destination}", tag = "destinations",
    operation_id = "remove_destination",
    params(InDestination, Removal),
    responses((status = 200, description = "It is removed", body = Removed), openapi_responses::RemovesDestination))]
pub(super) async fn remove(
    State(api): State<Api>,
    Path(name): Path<String>,
    removal: Result<Params<Removal>, Problem>,
) -> Result<Json<Removed>, Problem> {
    let name = parse_name(&name)?;
    refuse_if_in_file(&api, &name).await?;
    let Params(removal) = removal?;
    let shards = shards_to_remove(&api, &name).await?;
    if !removal.force {
        refuse_unless_empty(&api, &shards).await?;
    }
    let mut removed_messages = 0;
    let mut is_known = false;
    for shard in shards {
        match api.store.delete_destination_by(&audit::author(), &shard, removal.force).await {
            Ok(removed) => {
                is_known = true;
                removed_messages += removed.removed_messages;
            }
            // An earlier removal got no further.
            Err(StoreError::UnknownDestination) => {}
            Err(StoreError::WrongState(detail)) => {
                let detail = format!("{shard}: {detail}; ?force=true removes them too");
                return Err(Problem::new(Code::WrongState, detail));
            }
            Err(error) => return Err(error.into()),
        }
        api.catalog.refresh(&shard).await?;
    }
    if !is_known {
        return Err(Problem::unknown_destination(name.as_str()));
    }
    audit::affected(removed_messages + 1);
    Ok(Json(Removed { removed: name, removed_messages }))
}

/// The shards of a destination, the first one first: from its removal on, nobody defines the others again. Includes
/// shards that an earlier removal has left.
async fn shards_to_remove(
    api: &Api,
    name: &DestinationName,
) -> Result<Vec<DestinationName>, Problem> {
    let mut all = vec![name.clone()];
    // A removal must succeed whatever is damaged.
    let known = match api.catalog.refresh(name).await {
        Err(error) if error.is_damage() => api.catalog.get(name.as_str()),
        known => known?,
    };
    let others = (1..SHARDS_MAX).map(|shard| name.of_shard(shard));
    if known.is_some_and(|entry| entry.destination.shards == 1) {
        all.extend(others.filter(|shard| api.catalog.get(shard.as_str()).is_some()));
        return Ok(all);
    }
    let found = others.map(|shard| async move {
        let is_stored = match api.store.is_stored(&shard).await {
            Err(error) if error.is_damage() => true,
            is_stored => is_stored?,
        };
        Ok::<_, Problem>(is_stored.then_some(shard))
    });
    let found: Vec<_> = stream::iter(found).buffered(LOOKED_UP_AT_ONCE).try_collect().await?;
    all.extend(found.into_iter().flatten());
    Ok(all)
}

/// Refuses to remove shards while one of them has messages: the others must not be removed before it is known.
async fn refuse_unless_empty(api: &Api, shards: &[DestinationName]) -> Result<(), Problem> {
    if shards.len() == 1 {
        return Ok(());
    }
    for shard in shards {
        let Some(entry) = api.catalog.get(shard.as_str()) else { continue };
        let counts = api.store.counts(&entry).await?;
        if counts.pending + counts.dead_letters > 0 {
            let detail = format!(
                "{}: {} messages are pending, and there are {} dead letters; ?force=true removes them too",
                shard.shard_in_paths(),
                counts.pending,
                counts.dead_letters
            );
            return Err(Problem::new(Code::WrongState, detail));
        }
    }
    Ok(())
}

/// Parses the name in a path.
pub(super) fn parse_name(text: &str) -> Result<DestinationName, Problem> {
    text.parse()
        .map_err(|invalid| Problem::invalid_parameter(format!("destination: {text:?}: {invalid}")))
}

/// Refuses to change a destination that the configuration file defines.
pub(super) async fn refuse_if_in_file(api: &Api, name: &DestinationName) -> Result<(), Problem> {
    if !api.in_file.check_controls(name).await? {
        return Ok(());
    }
    let detail = format!("{name:?} is defined in the configuration file; change it there");
    Err(Problem::new(Code::DefinedInFile, detail))
}
