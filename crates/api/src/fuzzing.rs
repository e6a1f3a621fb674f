//! The functions that the fuzz targets call (`crates/testing/src/fuzzing/`).

use std::sync::Arc;

use axum::http::Uri;
use serde::de::DeserializeOwned;

use super::{
    dead_letters, destinations, log, messages,
    request::{Params, Range, cursor_of, limit_of, sequence_of},
};
use http_server::invalid::Location;

/// Reads the text as a cursor, as a range of times, and as the query of each list.
pub fn cursors(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(Some(cursor)) = cursor_of(Some(text)) {
        assert_eq!(cursor_of(Some(&cursor.to_string())).ok(), Some(Some(cursor)));
        assert!(sequence_of(text).is_ok());
    }
    let (from, to) = text.split_once('&').unwrap_or((text, ""));
    if let Ok(range) = Range::parse(Location::Parameter, None, None, Some(from), Some(to)) {
        assert!(!range.holds(1, None));
    }
    let Ok(uri) = format!("/?{text}").parse::<Uri>() else { return };
    query::<messages::Listing>(&uri);
    query::<dead_letters::Listing>(&uri);
    query::<log::Listing>(&uri);
    if let Some(listing) = query::<destinations::Listing>(&uri) {
        pages(listing);
    }
}

/// Reads a query. The problem that refuses it must fit on one line.
fn query<T: DeserializeOwned>(uri: &Uri) -> Option<T> {
    let query = Params::of(uri).map(|Params(query)| query);
    query.map_err(|problem| assert!(!problem.json(None).to_string().contains('\n'))).ok()
}

/// Follows pages by name from here to the end.
fn pages(mut listing: destinations::Listing) {
    let all: Vec<Arc<String>> = ["a", "b", "m.1", "z"].map(|name| Arc::new(name.into())).into();
    let mut before = listing.cursor.clone().unwrap_or_default();
    for _ in 0..=all.len() {
        let page = destinations::page_of(&all, &listing, |name| name.as_str());
        let Ok((page, next)) = page else {
            assert!(limit_of(listing.limit).is_err());
            return;
        };
        assert!(page.iter().all(|name| before.as_str() < name.as_str()));
        let Some(next) = next else { return };
        before.clone_from(&next);
        listing.cursor = Some(next);
    }
    panic!("the pages have no end");
}
