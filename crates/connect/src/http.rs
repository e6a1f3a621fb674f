//! The listener for health checks and metrics.

use anyhow::Context;
use axum::{Router, http::StatusCode, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::{run::Shared, settings::Http};

/// Opens the listener. The returned future serves requests until the process stops.
pub async fn serve(
    http: &Http,
    Shared { board, shutdown, .. }: Shared,
    metrics: PrometheusHandle,
) -> anyhow::Result<impl Future<Output = std::io::Result<()>> + Send + use<>> {
    let listener = TcpListener::bind(http.listen).await;
    let listener = listener.with_context(|| format!("http.listen: {}", http.listen))?;
    let ready = move || async move {
        match board.problems() {
            none if none.is_empty() => (StatusCode::OK, "ready\n".to_owned()),
            some => (StatusCode::SERVICE_UNAVAILABLE, some.join("\n") + "\n"),
        }
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move || async move { metrics.render() }));
    let ended = shutdown.cancelled_owned();
    Ok(async move { axum::serve(listener, router).with_graceful_shutdown(ended).await })
}
