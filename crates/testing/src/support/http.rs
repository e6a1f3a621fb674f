//! A small HTTP/1.1 server that can cut a connection at any point of an exchange.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

/// A free loopback port.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A complete request.
pub struct Request {
    /// The headers, with lower-case names.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Request {
    /// A required header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}"))
    }

    /// A number in a required header.
    pub fn number(&self, name: &str) -> u64 {
        self.header(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
    }
}

/// The answer to a request.
pub struct Answer {
    pub status: u16,
    /// A header line with its line end, or empty.
    pub header: &'static str,
    pub body: String,
    /// True if the connection is closed after it.
    pub is_last: bool,
}

impl Answer {
    /// An answer with only this status.
    pub fn status(status: u16) -> Answer {
        Answer { status, header: "", body: String::new(), is_last: false }
    }
}

/// Serves on a free port. If `handle` returns no answer, the connection is cut.
pub async fn serve<F: Future<Output = Option<Answer>> + Send>(
    handle: impl Fn(Request) -> F + Send + Sync + 'static,
) -> (SocketAddr, AbortOnDropHandle<()>) {
    serve_at(ANY, handle).await
}

/// Like `serve`, at this address.
pub async fn serve_at<F: Future<Output = Option<Answer>> + Send>(
    address: SocketAddr,
    handle: impl Fn(Request) -> F + Send + Sync + 'static,
) -> (SocketAddr, AbortOnDropHandle<()>) {
    let handle = Arc::new(handle);
    accept_at(address, move |stream| {
        let handle = handle.clone();
        async move {
            // A killed client breaks the exchange. Accepted deliveries stay accepted.
            let _ = converse(stream, &*handle).await;
        }
    })
    .await
}

/// Accepts connections on a free port, and serves each in its own task.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (SocketAddr, AbortOnDropHandle<()>) {
    accept_at(ANY, serve).await
}

async fn accept_at<F: Future<Output = ()> + Send + 'static>(
    address: SocketAddr,
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a test can accept connections");
            stream.set_nodelay(true).unwrap();
            tokio::spawn(serve(stream));
        }
    });
    (address, AbortOnDropHandle::new(server))
}

async fn converse<F: Future<Output = Option<Answer>>>(
    stream: TcpStream,
    handle: &impl Fn(Request) -> F,
) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let Some(answer) = handle(request).await else { return Ok(()) };
        let Answer { status, header, body, is_last } = answer;
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} Said\r\n{header}content-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await?;
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut BufStream<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut headers = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        if !line.ends_with('\n') {
            // The connection was cut within the headers, so this is not a request.
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { headers, body: text(body) }))
}

/// Bytes as text, with escapes if they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}
