//! A receiver of traces that discards them, with `--traces`.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;

/// Dropping the collector ends it.
pub struct Collector {
    pub address: SocketAddr,
    bytes: Arc<AtomicU64>,
    _server: AbortOnDropHandle<()>,
}

impl Collector {
    /// Starts the collector on a free port.
    pub async fn start() -> io::Result<Collector> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let bytes = Arc::<AtomicU64>::default();
        let server = tokio::spawn(serve(listener, bytes.clone()));
        Ok(Collector { address, bytes, _server: AbortOnDropHandle::new(server) })
    }

    /// True if any traces have arrived.
    pub fn has_traces(&self) -> bool {
        self.bytes.load(Relaxed) > 0
    }
}

/// Accepts connections while polled.
async fn serve(listener: TcpListener, bytes: Arc<AtomicU64>) {
    // Owns the connections, so that they end with the listener.
    let mut connections = JoinSet::new();
    loop {
        // `accept` fails if the connection is already gone. The peer will notice that.
        if let Ok((stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            let service = service_fn(move |request| discard(request, bytes.clone()));
            connections
                .spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn discard(
    request: Request<Incoming>,
    bytes: Arc<AtomicU64>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    if let Ok(body) = request.into_body().collect().await {
        bytes.fetch_add(body.to_bytes().len() as u64, Relaxed);
    }
    Ok(Response::new(Empty::new()))
}
