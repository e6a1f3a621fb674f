//! The two receivers: they accept everything at once and record it.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

use super::{ledger::Ledger, plan::Stream, transformer::serve};

/// Two running receivers; dropping this stops them.
pub struct Receivers {
    http: SocketAddr,
    tcp: SocketAddr,
    _servers: [AbortOnDropHandle<()>; 2],
}

/// The fields of a body that the receivers read.
#[derive(Deserialize)]
struct Item {
    n: usize,
    #[serde(default)]
    transformed: bool,
}

impl Receivers {
    /// Starts both on free ports.
    pub async fn start(ledger: Arc<Ledger>) -> std::io::Result<Receivers> {
        let routes = Router::new().route("/in", post(accept)).with_state(ledger.clone());
        let (http, http_server) = serve(routes).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let tcp = listener.local_addr()?;
        let tcp_server = AbortOnDropHandle::new(tokio::spawn(serve_lines(listener, ledger)));
        Ok(Receivers { http, tcp, _servers: [http_server, tcp_server] })
    }

    /// The URL of a destination's receiver.
    pub fn url(&self, stream: Stream) -> String {
        match stream {
            Stream::Http => format!("http://{}/in", self.http),
            Stream::Tcp => format!("tcp://{}", self.tcp),
        }
    }
}

async fn accept(State(ledger): State<Arc<Ledger>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let at = Instant::now();
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse().ok();
    // A delivery without a position counts as the lowest one.
    let place = number("reseq-epoch").zip(number("reseq-sequence")).unwrap_or((0, 0));
    ledger.arrived(Stream::Http, at, item(&body), Some(place));
    StatusCode::OK
}

async fn serve_lines(listener: TcpListener, ledger: Arc<Ledger>) {
    // Owns the connections, so that they end with the listener.
    let mut connections = JoinSet::new();
    loop {
        // An accept may fail for a connection that was closed again; its peer notices.
        if let Ok((stream, _)) = listener.accept().await {
            let ledger = ledger.clone();
            connections.spawn(async move {
                // An error only means that the sender ended, normally or not.
                let _ = accept_lines(stream, &ledger).await;
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn accept_lines(stream: TcpStream, ledger: &Ledger) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await? > 0 {
        let at = Instant::now();
        // The death of the sender truncated the last line: it is not a message.
        if line.pop() != Some(b'\n') {
            break;
        }
        ledger.arrived(Stream::Tcp, at, item(&line), None);
        write.write_all(b"OK\n").await?;
        line.clear();
    }
    Ok(())
}

/// The number of a message, and whether the transformer processed it. `(0, false)`, which no
/// message has, if the body is not from the demo.
fn item(body: &[u8]) -> (usize, bool) {
    serde_json::from_slice(body).map_or((0, false), |item: Item| (item.n, item.transformed))
}
