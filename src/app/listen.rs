//! The listeners of a process.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{AppError, descriptors::Descriptors, serve_http::HttpServer, supervisor::Supervisor};
use crate::{
    access::Guard,
    api,
    config::Config,
    ingest::{self, Committer},
    tls::Acceptor,
};

/// Binds the address of this configuration field.
pub(super) async fn listen(
    address: SocketAddr,
    field: &'static str,
) -> Result<(TcpListener, SocketAddr), AppError> {
    let failed = |problem| AppError::Listen { address, field, problem };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Starts the HTTP listeners, of all and of operators; returns their addresses.
pub(super) async fn listen_http(
    config: &Config,
    descriptors: &Descriptors,
    (routes, guard): (Router, Guard),
    listeners: &TaskTracker,
    stop: &CancellationToken,
    supervisor: &Supervisor,
) -> Result<(SocketAddr, Option<SocketAddr>), AppError> {
    let document = api::document(ingest::http::openapi());
    let serve = |listener, guard, connections_max, tls| {
        let routes = api::surround(routes.clone(), super::pace_of(config), guard, &document);
        let server = HttpServer::new(routes, &config.http, tls, connections_max, stop.clone());
        let serving = server.run(listener, listeners.clone());
        listeners.spawn(supervisor.watch("HTTP listener", serving));
    };
    let (listener, http) = listen(config.http.listen, "http.listen").await?;
    let guard_of_all = guard.at(http.ip());
    let tls = Acceptor::http("http.tls", &config.http.tls)?;
    let Some(address) = config.admin.address()? else {
        serve(listener, guard_of_all, descriptors.http, tls);
        return Ok((http, None));
    };
    let (admin_listener, admin) = listen(address, "admin.listen").await?;
    serve(listener, guard_of_all.without_operators(), descriptors.http, tls);
    let tls = Acceptor::http("admin.tls", &config.admin.tls)?;
    serve(admin_listener, guard.at(admin.ip()), descriptors.admin, tls);
    Ok((http, Some(admin)))
}

/// Starts the TCP listeners; returns their addresses.
pub(super) async fn listen_tcp(
    config: &Config,
    connections_max: usize,
    (committer, guard): (Committer, Guard),
    listeners: &TaskTracker,
    stop: &CancellationToken,
    supervisor: &Supervisor,
) -> Result<Vec<SocketAddr>, AppError> {
    let shared = ingest::tcp::Shared {
        committer,
        limits: ingest::json::Limits::of(&config.http),
        frames_in_flight_max: config.ingest.frames_in_flight_max,
        pace: super::pace_of(config),
        connections: Arc::new(Semaphore::new(connections_max)),
        guard,
    };
    let mut bound = Vec::new();
    for settings in &config.tcp {
        let (listener, address) = listen(settings.listen, "tcp.listen").await?;
        let run = ingest::tcp::run(
            listener,
            settings.clone(),
            Acceptor::frames("tcp.tls", &settings.tls)?,
            ingest::tcp::Shared { guard: shared.guard.at(address.ip()), ..shared.clone() },
            stop.clone(),
            listeners.clone(),
        );
        listeners.spawn(supervisor.watch("TCP listener", run));
        bound.push(address);
    }
    Ok(bound)
}
