//! The console at `/console`, for operators: its page (built from `web/console/`), the session of a browser, and the
//! events that update its pages. The page makes all its changes through the API.

mod assets;
mod events;
mod hour;
mod hub;
pub(crate) mod measure;
mod numbers;
mod session;
mod views;

use axum::{Router, routing::get};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use hub::Hub;
use store::{Catalog, Store};

/// The parts of the process that the console reads.
#[derive(Clone)]
pub struct Sources {
    /// Redis.
    pub store: Store,
    /// The destinations.
    pub catalog: Catalog,
    /// Cancelled when the process begins to stop.
    pub stop: CancellationToken,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
}

/// The routes of the console. They are not part of the API, so the OpenAPI document does not have them.
pub fn router(sources: Sources) -> Router {
    let hub = Hub::new(sources);
    hub.keep_hour();
    Router::new()
        .route("/console", get(assets::page))
        .route("/console/", get(assets::page))
        .route("/console/{file}", get(assets::file))
        .route(
            "/console/session",
            get(session::show).post(session::sign_in).delete(session::sign_out),
        )
        .route("/console/events", get(events::events))
        .route("/console/hour", get(hour::hour))
        .with_state(hub)
}
