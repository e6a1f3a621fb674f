//! Shared by the tests of transforms and deliveries: a message, and an HTTP receiver that records
//! requests and gives configured answers.
#![allow(dead_code)] // Each test file uses its own part.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body as AxumBody, Bytes},
    http::{HeaderMap, Request, Response, Uri},
    response::IntoResponse,
};
use domain::{Body, Message, Position, Stamped};
use outbound::{http_client::Clients, outgoing::Outgoing};
use tls::Connector;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use tokio_util::task::AbortOnDropHandle;

/// HTTP clients that may connect to this machine.
pub fn clients() -> Clients {
    let outgoing = Outgoing::new(vec!["127.0.0.0/8".parse().unwrap()]);
    Clients::new(outgoing, Connector::of_system().unwrap()).unwrap()
}

/// A message with epoch 3 and sequence 42, and no optional fields.
pub fn message(body: &str) -> Stamped {
    let message = Message {
        id: "order-7".into(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: body.to_owned().into() },
        received_ms: 0,
    };
    Stamped::new("erp".parse().unwrap(), Position { epoch: 3, sequence: 42 }, 41, message)
}

/// A message with a key, and with headers that need encoding.
pub fn message_with_everything() -> Stamped {
    let mut message = message("body");
    message.message.key = Some(" kontō 7%".into());
    message.message.headers =
        [("x-tenant", "7"), ("x-tenant", "8"), ("x-static", "travelling"), ("x-reseq-key", "no")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    message
}

/// The headers of [`message_with_everything`] on the wire, with `x-static` as a static header.
pub fn headers_with_everything(address: &str, attempt: &str) -> BTreeMap<String, String> {
    [
        ("accept", "*/*"),
        ("authorization", "Bearer s3cret"),
        ("content-length", "4"),
        ("content-type", "text/plain"),
        ("host", address),
        ("reseq-attempt", attempt),
        ("reseq-destination", "erp"),
        ("reseq-epoch", "3"),
        ("reseq-id", "order-7"),
        ("reseq-key", "%20kont%C5%8D%207%25"),
        ("reseq-previous", "41"),
        ("reseq-sequence", "42"),
        ("user-agent", concat!("reseq/", env!("CARGO_PKG_VERSION"))),
        ("x-reseq-key", "no"),
        ("x-static", "static"),
        ("x-tenant", "7, 8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// A request that the receiver got.
pub struct Seen {
    pub method: String,
    pub uri: Uri,
    pub headers: BTreeMap<String, String>,
    pub body: Bytes,
    /// The client's port, which identifies the connection.
    pub port: u16,
}

/// A receiver on a free port.
pub struct Receiver {
    /// `127.0.0.1:port`.
    pub address: String,
    pub seen: mpsc::UnboundedReceiver<Seen>,
}

impl Receiver {
    pub fn url(&self) -> String {
        format!("http://{}/in?token=s3cret", self.address)
    }

    /// The requests so far.
    pub fn take(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }
}

/// Starts a receiver that answers each request with the result of `answer`.
pub async fn receiver<A: IntoResponse>(answer: impl Fn() -> A + Send + Sync + 'static) -> Receiver {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, seen) = mpsc::unbounded_channel();
    let answer = Arc::new(answer);
    let handle = move |request: Request<AxumBody>| {
        let (sender, answer) = (sender.clone(), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let client: &axum::extract::ConnectInfo<std::net::SocketAddr> =
                head.extensions.get().unwrap();
            let seen = Seen {
                method: head.method.to_string(),
                uri: head.uri,
                headers: flat(&head.headers),
                body,
                port: client.0.port(),
            };
            sender.send(seen).unwrap();
            answer().into_response()
        }
    };
    let service = Router::new()
        .fallback(handle)
        .into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Receiver { address, seen }
}

fn flat(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = value.to_str().unwrap();
        let known = flat.entry(name.to_string()).or_default();
        known.push_str(if known.is_empty() { "" } else { ", " });
        known.push_str(value);
    }
    flat
}

/// An answer that never ends.
pub fn endless() -> Response<AxumBody> {
    let bytes = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"begun"))]);
    let never = futures::stream::pending();
    Response::new(AxumBody::from_stream(futures::StreamExt::chain(bytes, never)))
}

/// A server that answers each request with exactly these bytes, and closes the connection.
pub async fn answering(answer: &'static str) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The requests of these tests are short, and arrive in one or two pieces.
            let mut request = Vec::new();
            while !is_whole(&request) {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0, "a whole request comes");
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, AbortOnDropHandle::new(server))
}

/// True if a request with a `content-length` is complete.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// A port without a listener.
pub async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}
