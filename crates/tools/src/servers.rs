//! Servers for measurements. Each accepts everything at once, while its future is polled.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use domain::Framing;
use formats::{FrameCodec, FrameError};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{
    codec::{Decoder, Encoder},
    task::AbortOnDropHandle,
};

/// The longest frame, in bytes.
const FRAME_BYTES_MAX: usize = 2 << 20;
/// The most bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Runs a server on a free port of the loopback interface. Dropping the handle ends it.
pub async fn spawn<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpListener) -> F,
) -> std::io::Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    Ok((address, AbortOnDropHandle::new(tokio::spawn(serve(listener)))))
}

/// Serves each connection in its own task. The connections end with the listener.
pub async fn connections<F: Future<Output: Send + 'static> + Send + 'static>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        // If `accept` fails, the connection is already gone, and the peer will notice.
        if let Ok((stream, _)) = listener.accept().await {
            // Without this, answers may wait for an acknowledgement, and that time would count as Reseq's.
            let _ = stream.set_nodelay(true);
            // A connection ends when its peer closes it. Reseq sends messages that were not accepted again.
            connections.spawn(serve(stream));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers HTTP requests. A request that breaks off gets no answer: its sender repeats it.
pub async fn http<F: Future<Output = Response<Full<Bytes>>> + Send>(
    listener: TcpListener,
    answer: impl Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
) {
    connections(listener, |stream| {
        let answer = answer.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                hyper::Result::Ok(answer(Request::from_parts(head, body)).await)
            }
        });
        http1::Builder::new().serve_connection(TokioIo::new(stream), service)
    })
    .await;
}

/// Accepts frames over TCP, in order, and answers each with `OK`.
pub async fn frames(
    listener: TcpListener,
    framing: Framing,
    accept: impl Fn(&[u8]) + Clone + Send + Sync + 'static,
) {
    connections(listener, |stream| accept_frames(stream, framing, accept.clone())).await;
}

async fn accept_frames(
    mut stream: TcpStream,
    framing: Framing,
    accept: impl Fn(&[u8]),
) -> Result<(), FrameError> {
    let mut codec = FrameCodec::new(framing, FRAME_BYTES_MAX);
    let (mut read, mut answers) = (BytesMut::with_capacity(READ_BYTES), BytesMut::new());
    loop {
        read.reserve(READ_BYTES / 4);
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        while let Some(frame) = codec.decode(&mut read)? {
            accept(&frame);
            codec.encode(Bytes::from_static(b"OK"), &mut answers)?;
        }
        // Write the answers to all frames that arrived together at once.
        stream.write_all_buf(&mut answers).await?;
    }
}
