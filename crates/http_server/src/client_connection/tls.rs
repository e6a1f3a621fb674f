//! The stream of a connection over TLS, after the handshake.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};
use tokio_rustls::server::TlsStream;

use super::{Activity, ClientConnection, ClientIo};

/// The decrypted stream of a [`ClientConnection`].
pub struct TlsIo {
    stream: TlsStream<ClientIo>,
    client: ClientConnection,
}

impl TlsIo {
    /// A stream whose handshake is over, and whose first request has not begun.
    pub fn new(stream: TlsStream<ClientIo>, client: ClientConnection) -> TlsIo {
        let mut state = client.state();
        if state.activity == Activity::Head {
            (state.activity, state.since) = (Activity::Idle, Instant::now());
        }
        drop(state);
        TlsIo { stream, client }
    }
}

impl AsyncRead for TlsIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.client.follow(&buffer.filled()[before..])?;
        let mut state = self.client.state();
        if buffer.filled().len() == before {
            state.has_ended = true;
        } else if state.activity == Activity::Idle && !self.client.is_multiplexed() {
            // The request may have arrived together with the end of the handshake.
            (state.activity, state.since) = (Activity::Head, Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The server calls this after its last write. When this is ready, all bytes have left.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.client.has_written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
