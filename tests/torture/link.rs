//! A TCP proxy between two processes, which misbehaves on request.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{names::Names, support::http::accept};

/// How a proxy treats its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// Cuts each connection after this many bytes, in either direction.
    Cut(usize),
    /// Forwards no data, without an error. Cuts when the weather changes.
    HalfOpen,
    /// Delays everything by this much, in each direction.
    Delayed(Duration),
}

/// The current target of connections; `None`: they are refused.
pub type Target = Arc<dyn Fn() -> Option<SocketAddr> + Send + Sync>;

/// Ports of servers, and the ports of the links to them.
pub type Ports = Arc<OnceLock<HashMap<u16, u16>>>;

/// One proxy. Dropping this ends it.
pub struct Link {
    pub address: SocketAddr,
    weather: watch::Sender<Weather>,
    struck: Arc<AtomicUsize>,
    _server: AbortOnDropHandle<()>,
}

impl Link {
    pub async fn to(target: Target) -> Link {
        Link::translating(target, &Ports::default()).await
    }

    /// A proxy to a server whose answers name other servers. The proxy replaces these names with
    /// their links, so that clients find all servers through links.
    pub async fn translating(target: Target, ports: &Ports) -> Link {
        let ports = ports.clone();
        let (weather, watched) = watch::channel(Weather::Fair);
        let struck = Arc::new(AtomicUsize::new(0));
        let shared = struck.clone();
        let (address, server) = accept(move |client| {
            let (watched, struck, target) = (watched.clone(), shared.clone(), target());
            let ports = ports.clone();
            async move {
                let Some(target) = target else { return };
                // If the server cannot be reached, the client sees a closed connection.
                let Ok(server) = TcpStream::connect(target).await else { return };
                let _ = server.set_nodelay(true);
                let names = Names { ports, kept: Vec::new() };
                join(client, server, watched, &struck, names).await;
            }
        })
        .await;
        Link { address, weather, struck, _server: server }
    }

    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// The number of chunks that were held, delayed or cut.
    pub fn struck(&self) -> usize {
        self.struck.load(Ordering::SeqCst)
    }
}

async fn join(
    client: TcpStream,
    server: TcpStream,
    weather: watch::Receiver<Weather>,
    struck: &AtomicUsize,
    names: Names,
) {
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    // The end of either direction ends both, and so cuts the connection.
    tokio::select! {
        () = pump(client_in, server_out, weather.clone(), struck, Names::default()) => {}
        () = pump(server_in, client_out, weather, struck, names) => {}
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    struck: &AtomicUsize,
    mut names: Names,
) {
    let mut bytes = vec![0; 64 << 10];
    let mut gone_through = 0;
    let mut last = *weather.borrow_and_update();
    loop {
        let read = match from.read(&mut bytes).await {
            Ok(read) if read > 0 => read,
            _ => return,
        };
        let now = *weather.borrow_and_update();
        if now != last {
            (last, gone_through) = (now, 0);
        }
        let mut sent = read;
        match now {
            Weather::Fair => {}
            Weather::Cut(at) => sent = read.min(at.saturating_sub(gone_through)),
            Weather::HalfOpen => {
                struck.fetch_add(1, Ordering::SeqCst);
                let _ = weather.changed().await;
                return;
            }
            Weather::Delayed(time) => {
                struck.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(time).await;
            }
        }
        gone_through += read;
        let passed = names.translated(&bytes[..sent]);
        if to.write_all(&passed).await.is_err() {
            return;
        }
        if sent < read {
            struck.fetch_add(1, Ordering::SeqCst);
            return;
        }
    }
}
