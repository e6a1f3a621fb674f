//! A receiver of traces that discards them. `--traces` uses it.

use std::{
    future::ready,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hyper::Response;
use tokio_util::task::AbortOnDropHandle;
use tools::servers;

/// A running collector. Dropping this ends it.
pub struct Collector {
    pub address: SocketAddr,
    bytes: Arc<AtomicU64>,
    _server: AbortOnDropHandle<()>,
}

impl Collector {
    /// Starts the collector on a free port.
    pub async fn start() -> io::Result<Collector> {
        let bytes = Arc::<AtomicU64>::default();
        let counter = bytes.clone();
        let (address, server) = servers::spawn(|listener| {
            servers::http(listener, move |request| {
                counter.fetch_add(request.body().len() as u64, Relaxed);
                ready(Response::default())
            })
        })
        .await?;
        Ok(Collector { address, bytes, _server: server })
    }

    /// True if any traces have arrived.
    pub fn has_traces(&self) -> bool {
        self.bytes.load(Relaxed) > 0
    }
}
