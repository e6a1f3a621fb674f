//! Health and metrics.

use std::sync::Arc;

use anyhow::Context;
use axum::{Router, http::StatusCode, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{board::Board, settings::Http};

/// Answers until the process stops.
pub async fn serve(
    http: &Http,
    board: Arc<Board>,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
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
    let ended = async move { shutdown.cancelled().await };
    Ok(async move { axum::serve(listener, router).with_graceful_shutdown(ended).await })
}
