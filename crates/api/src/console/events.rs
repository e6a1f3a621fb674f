//! `/console/events`: the view that a page shows, as server-sent events. Each event holds the whole view, so a slow
//! browser can skip to the newest event.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::Stream;
use serde::Deserialize;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    hub::{Frame, Hub},
    views::{Rows, Sort, View},
};
use http_server::{principal::Principal, problem::Problem};

/// A stream ends after this time. The browser opens it again, and this process checks its token again.
const STREAM_MAX: Duration = Duration::from_secs(60);
/// After this time without an event, the stream sends a comment, so that no proxy closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The view that a page asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    view: Name,
    destination: Option<String>,
    key: Option<String>,
    search: Option<String>,
    sort: Option<Sort>,
    page: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Overview,
    Destinations,
    Lane,
    Pods,
}

/// `GET /console/events`
pub(super) async fn events(
    State(hub): State<Hub>,
    Extension(caller): Extension<Principal>,
    query: Result<Query<Wanted>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let Query(wanted) = query.map_err(|error| Problem::invalid_parameter(error.body_text()))?;
    let frames = hub.watch(view(wanted, &caller)?, &caller)?;
    let stream = following(frames, hub.stopping(), Instant::now() + STREAM_MAX);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn view(wanted: Wanted, caller: &Principal) -> Result<View, Problem> {
    let only = caller.grant().destinations.clone().map(Arc::new);
    Ok(match wanted.view {
        Name::Overview => View::Overview { only },
        Name::Destinations => View::Destinations {
            only,
            rows: Rows {
                search: wanted.search.unwrap_or_default().chars().take(64).collect(),
                sort: wanted.sort.unwrap_or_default(),
                page: wanted.page.unwrap_or_default(),
            },
        },
        Name::Lane => {
            let text = wanted.destination.unwrap_or_default();
            let destination = text.parse().map_err(|_| Problem::unknown_destination(&text))?;
            caller.check(&destination)?;
            View::Lane { destination, key: wanted.key }
        }
        Name::Pods => {
            caller.check_unlimited()?;
            View::Pods
        }
    })
}

/// The frames as events, until `stop` or `end`.
fn following(
    frames: watch::Receiver<Frame>,
    stop: CancellationToken,
    end: Instant,
) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold((frames, true), move |(mut frames, mut is_first)| {
        let stop = stop.clone();
        async move {
            loop {
                // If another browser watches the same view, its newest frame is already there.
                if !is_first {
                    tokio::select! {
                        () = stop.cancelled() => return None,
                        () = tokio::time::sleep_until(end) => return None,
                        changed = frames.changed() => changed.ok()?,
                    }
                }
                is_first = false;
                let frame = frames.borrow_and_update().clone();
                if let Some(frame) = frame {
                    return Some((Ok(Event::default().data(&*frame)), (frames, false)));
                }
            }
        }
    })
}
