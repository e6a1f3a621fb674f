//! The listeners of a process.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{AppError, supervisor::Supervisor};
use crate::{
    config::Config,
    ingest::{self, Committer},
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

/// Starts the TCP listeners; returns their addresses.
pub(super) async fn listen_tcp(
    config: &Config,
    connections_max: usize,
    committer: Committer,
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
    };
    let mut bound = Vec::new();
    for settings in &config.tcp {
        let (listener, address) = listen(settings.listen, "tcp.listen").await?;
        let run = ingest::tcp::run(
            listener,
            settings.clone(),
            shared.clone(),
            stop.clone(),
            listeners.clone(),
        );
        listeners.spawn(supervisor.watch("TCP listener", run));
        bound.push(address);
    }
    Ok(bound)
}
