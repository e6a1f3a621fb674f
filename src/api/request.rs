//! What the steering routes read of a request: the destination, a sequence, the query, a body that
//! may be left out; and calls to the store that meet a definition that has changed.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{
        Query,
        rejection::{BytesRejection, QueryRejection},
    },
};
use serde::de::DeserializeOwned;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Api, read_json};
use crate::{
    domain::{DestinationName, Sequence, State},
    store::{CatalogEntry, Repair, Retry, StoreError, Who, Withdrawal, Withdrawn},
    wire::problem::Problem,
};

/// So often in one call a definition is read again. Each time somebody has changed it just then.
const STALE_MAX: usize = 5;
/// The items of a page, unless the request names another number.
const LIMIT: usize = 100;
/// The most items of a page.
const LIMIT_MAX: usize = 1_000;

/// No cursor is higher: as sequences, they are numbers that a double holds exactly.
const CURSOR_MAX: u64 = 1 << 53;

/// The destination that a request is about.
pub(super) struct Target {
    pub(super) api: Api,
    pub(super) name: DestinationName,
    known: Arc<CatalogEntry>,
}

impl Target {
    /// The destination of this name.
    pub(super) async fn find(api: &Api, text: &str) -> Result<Target, Problem> {
        let known = find(api, text).await?;
        Ok(Target { api: api.clone(), name: known.destination.name.clone(), known })
    }

    /// As it is known now.
    pub(super) fn known(&self) -> &Arc<CatalogEntry> {
        &self.known
    }

    /// Reads the definition again, where the truth is.
    pub(super) async fn refresh(&mut self) -> Result<(), Problem> {
        let fresh = self.api.catalog.refresh(&self.name).await?;
        self.known = fresh.ok_or_else(|| Problem::unknown_destination(self.name.as_str()))?;
        Ok(())
    }

    /// Makes a call that a script may refuse because the definition has changed; once more if so.
    async fn call<T, F: Future<Output = Result<T, StoreError>>>(
        &mut self,
        call: impl Fn(Arc<CatalogEntry>) -> F,
    ) -> Result<T, StoreError> {
        for _ in 0..STALE_MAX {
            match call(self.known.clone()).await {
                Err(StoreError::StaleDefinition) => {}
                answer => return answer,
            }
            let fresh = self.api.catalog.refresh(&self.name).await?;
            let fresh = fresh.ok_or(StoreError::UnknownDestination)?;
            // Another destination of this name: its messages have the same numbers, but are not meant.
            if fresh.born != self.known.born {
                return Err(StoreError::UnknownDestination);
            }
            self.known = fresh;
        }
        call(self.known.clone()).await
    }

    /// Has messages leave; one answer each, in order.
    pub(super) async fn withdraw(
        &mut self,
        withdrawal: &Withdrawal<'_>,
    ) -> Result<Vec<Withdrawn>, StoreError> {
        let store = &self.api.store.clone();
        let call = |known: Arc<CatalogEntry>| async move {
            store.withdraw(&known, Who::Person, withdrawal).await
        };
        self.call(call).await
    }

    /// Throws dead letters away; tells how many there were.
    pub(super) async fn discard(&mut self, letters: &[Sequence]) -> Result<u64, StoreError> {
        let store = &self.api.store.clone();
        let call = |known: Arc<CatalogEntry>| async move { store.discard(&known, letters).await };
        self.call(call).await
    }

    /// Compares the sets and the records of the destination, and repairs them.
    pub(super) async fn repair(&mut self, dry_run: bool) -> Result<Repair, StoreError> {
        let (store, stop) = (&self.api.store.clone(), &self.api.stop.clone());
        self.call(
            |known: Arc<CatalogEntry>| async move { store.repair(&known, dry_run, stop).await },
        )
        .await
    }

    /// Has a head tried again; tells where it stands.
    pub(super) async fn retry(&mut self, retry: &Retry) -> Result<State, StoreError> {
        let store = &self.api.store.clone();
        let call = |known: Arc<CatalogEntry>| async move { store.retry(&known, retry).await };
        self.call(call).await
    }
}

/// The destination of this name.
pub(super) async fn find(api: &Api, text: &str) -> Result<Arc<CatalogEntry>, Problem> {
    let name: DestinationName = text.parse().map_err(|_| Problem::unknown_destination(text))?;
    let known = api.catalog.find(&name).await?;
    known.ok_or_else(|| Problem::unknown_destination(text))
}

/// The sequence in a path.
pub(super) fn sequence_of(text: &str) -> Result<Sequence, Problem> {
    text.parse().map_err(|_| {
        Problem::invalid_field(format!("sequence: {text:?} is no number; it stands in the path"))
    })
}

/// A query; what is wrong is named.
pub(super) fn query_of<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    let Query(query) = query.map_err(|error| {
        let text = error.body_text();
        let detail = text.strip_prefix("Failed to deserialize query string: ");
        Problem::invalid_field(detail.unwrap_or(&text))
    })?;
    Ok(query)
}

/// A body as JSON of this shape; an empty one is an empty object.
pub(super) fn read_optional<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    max: usize,
) -> Result<T, Problem> {
    let body = body.map(|bytes| match bytes.trim_ascii().is_empty() {
        true => Bytes::from_static(b"{}"),
        false => bytes,
    });
    read_json(body, max)
}

/// How many items a page has.
pub(super) fn limit_of(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(LIMIT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(limit),
        Some(limit) => {
            let detail = format!("limit: {limit} is outside 1 to {LIMIT_MAX}");
            Err(Problem::invalid_field(detail))
        }
    }
}

/// Where a page before ended, as it was told.
pub(super) fn cursor_of(cursor: Option<&str>) -> Result<Option<u64>, Problem> {
    let wrong = || Problem::invalid_field("cursor: is not one that a page before has named");
    let read = |text: &str| text.parse().ok().filter(|cursor| *cursor <= CURSOR_MAX);
    cursor.map(|text| read(text).ok_or_else(wrong)).transpose()
}

/// A time, in ms since 1970.
pub(super) fn time_of(field: &str, text: &str) -> Result<u64, Problem> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let ms = time.map(|time| time.unix_timestamp_nanos() / 1_000_000);
    ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        let detail = format!("{field}: {text:?} is not a time such as 2026-11-21T10:00:00Z");
        Problem::invalid_field(detail)
    })
}
