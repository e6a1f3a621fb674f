//! The two receivers: they accept every message at once, and record it.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use domain::Framing;
use hyper::Response;
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;

use super::{ledger::Ledger, plan::Stream};
use crate::servers;

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
    /// Starts both receivers on free ports.
    pub async fn start(ledger: Arc<Ledger>) -> std::io::Result<Receivers> {
        let of_http = ledger.clone();
        let (http, http_server) = servers::spawn(|listener| {
            servers::http(listener, move |request| {
                let at = Instant::now();
                let number = |name: &str| request.headers().get(name)?.to_str().ok()?.parse().ok();
                // A delivery without a position counts as the lowest one.
                let place = number("reseq-epoch").zip(number("reseq-sequence")).unwrap_or((0, 0));
                of_http.arrived(Stream::Http, at, item(request.body()), Some(place));
                std::future::ready(Response::default())
            })
        })
        .await?;
        let (tcp, tcp_server) = servers::spawn(|listener| {
            servers::frames(listener, Framing::Lines, move |line| {
                ledger.arrived(Stream::Tcp, Instant::now(), item(line), None);
            })
        })
        .await?;
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

/// The number of a message, and true if the transformer processed it. If the body is not from the demo: `(0, false)`,
/// which no message has.
fn item(body: &[u8]) -> (usize, bool) {
    serde_json::from_slice(body).map_or((0, false), |item: Item| (item.n, item.transformed))
}
