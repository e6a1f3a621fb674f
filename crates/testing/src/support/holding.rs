//! A receiver that accepts connections and never answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::io::AsyncReadExt;
use tokio_util::task::AbortOnDropHandle;

use super::http;

/// A running receiver; dropping this stops it.
pub struct Holding {
    pub address: SocketAddr,
    held: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    _server: AbortOnDropHandle<()>,
}

impl Holding {
    pub async fn start() -> Holding {
        let (held, accepted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (held.clone(), accepted.clone());
        let (address, server) = http::accept(move |mut stream| {
            let (held, accepted) = counts.clone();
            held.fetch_add(1, Ordering::SeqCst);
            accepted.fetch_add(1, Ordering::SeqCst);
            async move {
                while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {}
                held.fetch_sub(1, Ordering::SeqCst);
            }
        })
        .await;
        Holding { address, held, accepted, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Connections that are open now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}
