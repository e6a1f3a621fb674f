//! A stream to a receiver of frames, in plain text or over TLS.

use std::{
    io::{self, Read},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

use futures::FutureExt;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use domain::Ack;

/// With `ack = "none"`, answers of the receiver are discarded before each frame: up to this many reads
/// of [`SCRAP_BYTES`].
const SCRAP_READS_MAX: usize = 16;
const SCRAP_BYTES: usize = 4096;

/// A stream to a receiver.
pub enum ReceiverStream {
    /// In plain text.
    Plain(TcpStream),
    /// Over TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ReceiverStream {
    /// The TCP stream under it.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            ReceiverStream::Plain(stream) => stream,
            ReceiverStream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// False if the receiver has closed the connection, or has sent unexpected data. Reads the
    /// socket directly, because tokio's view of it may be outdated.
    pub async fn is_usable(&mut self, ack: Ack) -> bool {
        match self {
            ReceiverStream::Plain(stream) => is_plain_usable(stream, ack),
            ReceiverStream::Tls(stream) => is_tls_usable(stream, ack).await,
        }
    }
}

fn is_plain_usable(stream: &TcpStream, ack: Ack) -> bool {
    let socket = SockRef::from(stream);
    let mut scrap = [0; SCRAP_BYTES];
    for _ in 0..SCRAP_READS_MAX {
        match (&*socket).read(&mut scrap) {
            Ok(1..) if ack == Ack::None => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => return false,
        }
    }
    true
}

/// Unread bytes may belong to TLS itself, such as a session ticket.
async fn is_tls_usable(stream: &mut TlsStream<TcpStream>, ack: Ack) -> bool {
    let mut scrap = [0; SCRAP_BYTES];
    for _ in 0..SCRAP_READS_MAX {
        match stream.read(&mut scrap).now_or_never() {
            Some(Ok(1..)) if ack == Ack::None => continue,
            Some(_) => return false,
            None => {}
        }
        let socket = stream.get_ref().0;
        match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
            Ok(0) => return false,
            // Bytes have arrived. Wait until tokio sees them.
            Ok(_) if socket.readable().await.is_ok() => {}
            Ok(_) => return false,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

impl AsyncRead for ReceiverStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReceiverStream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            ReceiverStream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for ReceiverStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ReceiverStream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            ReceiverStream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReceiverStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ReceiverStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReceiverStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ReceiverStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
