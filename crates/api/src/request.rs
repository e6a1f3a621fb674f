//! Parses requests of interventions: destination, sequence, query, optional body. Repeats calls to the store after the
//! definition has changed.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection},
    http::{Uri, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, de::DeserializeOwned};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::IntoParams;

use super::{Api, read_json};
use domain::{DestinationName, Sequence, State, nearest::for_people};
use http_server::{invalid::Location, problem::Problem};
use store::{CatalogEntry, GoesOn, Repair, Retry, StoreError, Who, Withdrawal, Withdrawn};

/// The most times that a call is repeated because the definition has just changed.
const STALE_MAX: usize = 5;
/// The default number of items per page.
const LIMIT: usize = 100;
/// The most items per page.
const LIMIT_MAX: usize = 1_000;

/// The highest cursor: sequences must be exact in a double.
const CURSOR_MAX: u64 = 1 << 53;

/// The path of a route below a destination.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct InDestination {
    /// The name of the destination
    destination: String,
}

/// The destination of a request. As a parameter of a handler: the destination in the path.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) api: Api,
    pub(super) name: DestinationName,
    entry: Arc<CatalogEntry>,
}

impl Target {
    /// The destination with this name.
    pub(super) async fn find(api: &Api, text: &str) -> Result<Target, Problem> {
        Ok(Target::of(api, find(api, text).await?))
    }

    /// This destination.
    pub(super) fn of(api: &Api, entry: Arc<CatalogEntry>) -> Target {
        Target { api: api.clone(), name: entry.destination.name.clone(), entry }
    }

    /// The current catalog entry.
    pub(super) fn entry(&self) -> &Arc<CatalogEntry> {
        &self.entry
    }

    /// Reads the definition again from its partition.
    pub(super) async fn refresh(&mut self) -> Result<(), Problem> {
        let fresh = self.api.catalog.refresh(&self.name).await?;
        self.entry = fresh.ok_or_else(|| Problem::unknown_destination(self.name.as_str()))?;
        Ok(())
    }

    /// Makes a call, and repeats it if the script refuses it because the definition has changed.
    async fn call<T, F: Future<Output = Result<T, StoreError>>>(
        &mut self,
        call: impl Fn(Arc<CatalogEntry>) -> F,
    ) -> Result<T, StoreError> {
        for _ in 0..STALE_MAX {
            match call(self.entry.clone()).await {
                Err(StoreError::StaleDefinition) => {}
                answer => return answer,
            }
            let fresh = self.api.catalog.refresh(&self.name).await?;
            let fresh = fresh.ok_or(StoreError::UnknownDestination)?;
            // Another destination of the same name now exists. Its messages have the same sequences, but the request
            // does not mean them.
            if fresh.born != self.entry.born {
                return Err(StoreError::UnknownDestination);
            }
            self.entry = fresh;
        }
        call(self.entry.clone()).await
    }

    /// Withdraws messages. Returns one result each, in order.
    pub(super) async fn withdraw(
        &mut self,
        withdrawal: &Withdrawal<'_>,
    ) -> Result<Vec<Withdrawn>, StoreError> {
        let store = &self.api.store.clone();
        let call = |entry: Arc<CatalogEntry>| async move {
            store.withdraw(&entry, Who::Operator, withdrawal).await
        };
        self.call(call).await
    }

    /// Discards dead letters. Returns how many of them existed.
    pub(super) async fn discard(&mut self, letters: &[Sequence]) -> Result<u64, StoreError> {
        let store = &self.api.store.clone();
        let call = |entry: Arc<CatalogEntry>| async move { store.discard(&entry, letters).await };
        self.call(call).await
    }

    /// Repairs contradictions between the destination's sets and records.
    pub(super) async fn repair(
        &mut self,
        dry_run: bool,
        goes_on: &GoesOn<'_>,
    ) -> Result<Repair, StoreError> {
        let store = &self.api.store.clone();
        let call = |entry: Arc<CatalogEntry>| async move {
            if !entry.paused.is_all() {
                let name = &entry.destination.name;
                return Err(StoreError::WrongState(format!(
                    "only a paused destination can be repaired: run reseq destinations pause {name}, and repair again"
                )));
            }
            store.repair(&entry, dry_run, goes_on).await
        };
        self.call(call).await
    }

    /// Retries a head. Returns its new state.
    pub(super) async fn retry(&mut self, retry: &Retry) -> Result<State, StoreError> {
        let store = &self.api.store.clone();
        let call = |entry: Arc<CatalogEntry>| async move { store.retry(&entry, retry).await };
        self.call(call).await
    }
}

impl FromRequestParts<Api> for Target {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Target, Response> {
        let path = Path::from_request_parts(parts, api).await;
        let Path(InDestination { destination }) = path.map_err(IntoResponse::into_response)?;
        Target::find(api, &destination).await.map_err(IntoResponse::into_response)
    }
}

/// The message of a destination with the sequence in the path.
pub(super) struct At(pub(super) Target, pub(super) Sequence);

impl FromRequestParts<Api> for At {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<At, Response> {
        let target = Target::from_request_parts(parts, api).await?;
        let path = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((_, sequence)) = path.map_err(IntoResponse::into_response)?;
        Ok(At(target, sequence_of(&sequence).map_err(IntoResponse::into_response)?))
    }
}

/// A destination in the path, and a JSON body with the action on it. An empty body counts as an empty object.
pub(super) struct Order<T>(pub(super) Target, pub(super) T);

impl<T: DeserializeOwned> FromRequest<Api> for Order<T> {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Order<T>, Response> {
        let (mut parts, body) = request.into_parts();
        // Reads the body first: a connection with an unread body cannot be used again.
        let body = Bytes::from_request(Request::from_parts(parts.clone(), body), api).await;
        let target = Target::from_request_parts(&mut parts, api).await?;
        let order =
            read_optional(body, api.batch_bytes_max).map_err(IntoResponse::into_response)?;
        Ok(Order(target, order))
    }
}

/// The query of a request. An error names the wrong parameter.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> Params<T> {
    pub(super) fn of(uri: &Uri) -> Result<Params<T>, Problem> {
        let Query(query) = Query::try_from_uri(uri).map_err(|error| {
            let text = error.body_text();
            let detail = text.strip_prefix("Failed to deserialize query string: ");
            Problem::invalid_parameter(for_people(detail.unwrap_or(&text)))
        })?;
        Ok(Params(query))
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Problem> {
        Params::of(&parts.uri)
    }
}

/// The destination with this name.
pub(super) async fn find(api: &Api, text: &str) -> Result<Arc<CatalogEntry>, Problem> {
    let name: DestinationName = text.parse().map_err(|_| Problem::unknown_destination(text))?;
    let entry = api.catalog.find(&name).await?;
    entry.ok_or_else(|| Problem::unknown_destination(text))
}

/// Parses the sequence in a path.
pub(super) fn sequence_of(text: &str) -> Result<Sequence, Problem> {
    text.parse().map_err(|_| {
        Problem::invalid_parameter(format!("sequence: {text:?} in the path is not a number"))
    })
}

/// Parses a body as JSON of this shape; an empty one counts as an empty object.
fn read_optional<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    max: usize,
) -> Result<T, Problem> {
    let body = body.map(|bytes| match bytes.trim_ascii().is_empty() {
        true => Bytes::from_static(b"{}"),
        false => bytes,
    });
    read_json(body, max)
}

/// The number of items per page.
pub(super) fn limit_of(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(LIMIT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(limit),
        Some(limit) => {
            let detail = format!("limit: {limit} is outside 1 to {LIMIT_MAX}");
            Err(Problem::invalid_parameter(detail))
        }
    }
}

/// Parses the cursor of a previous page.
pub(super) fn cursor_of(cursor: Option<&str>) -> Result<Option<u64>, Problem> {
    let wrong = || Problem::invalid_parameter("cursor: is not the next_cursor of a page");
    let read = |text: &str| text.parse().ok().filter(|cursor| *cursor <= CURSOR_MAX);
    cursor.map(|text| read(text).ok_or_else(wrong)).transpose()
}

/// Parses a time into ms since 1970.
pub(super) fn time_of(location: Location, field: &str, text: &str) -> Result<u64, Problem> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let ms = time.map(|time| time.unix_timestamp_nanos() / 1_000_000);
    ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        let detail = format!("{field}: {text:?} is not a time such as 2026-11-21T10:00:00Z");
        Problem::invalid(location, detail)
    })
}

/// The range of sequences and times by which lists and bulk operations filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) from_sequence: Sequence,
    pub(super) to_sequence: Sequence,
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

impl Range {
    /// Parses the four limits. They are inclusive, and each may be absent.
    pub(super) fn parse(
        location: Location,
        from_sequence: Option<Sequence>,
        to_sequence: Option<Sequence>,
        from_time: Option<&str>,
        to_time: Option<&str>,
    ) -> Result<Range, Problem> {
        let time =
            |field, text: Option<&str>| text.map(|text| time_of(location, field, text)).transpose();
        for (field, sequence) in [("from_sequence", from_sequence), ("to_sequence", to_sequence)] {
            if sequence.is_some_and(|sequence| sequence > CURSOR_MAX) {
                let detail = format!("{field}: is above all sequences, which end at {CURSOR_MAX}");
                return Err(Problem::invalid(location, detail));
            }
        }
        Ok(Range {
            from_sequence: from_sequence.unwrap_or_default(),
            to_sequence: to_sequence.unwrap_or(Sequence::MAX),
            from_ms: time("from_time", from_time)?.unwrap_or_default(),
            to_ms: time("to_time", to_time)?.unwrap_or(u64::MAX),
        })
    }

    /// True if the sequence and the time are within the range. A message without a known time is outside of any range
    /// of times.
    pub(super) fn holds(&self, sequence: Sequence, at_ms: Option<u64>) -> bool {
        let any_time = self.from_ms == 0 && self.to_ms == u64::MAX;
        (self.from_sequence..=self.to_sequence).contains(&sequence)
            && at_ms.map_or(any_time, |at_ms| (self.from_ms..=self.to_ms).contains(&at_ms))
    }
}
