//! The stream of a connection. The server uses it, and [`ClientConnection`] records the reads and writes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::{Activity, ClientConnection};
use crate::socket;

/// The stream of a [`ClientConnection`].
pub struct ClientIo {
    client: ClientConnection,
    /// True if the written bytes are encrypted. They then do not show which answers were written.
    is_under_tls: bool,
}

impl ClientIo {
    pub(super) fn new(client: ClientConnection, is_under_tls: bool) -> ClientIo {
        ClientIo { client, is_under_tls }
    }

    fn note<T>(&self, result: io::Result<T>) -> Poll<io::Result<T>> {
        if let Err(error) = &result {
            self.client.state().error = Some(error.kind());
        }
        Poll::Ready(result)
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(socket::poll_write(&self.client.0.stream, cx, write));
        let mut state = self.client.state();
        if state.activity == Activity::Idle {
            state.since = Instant::now();
        }
        drop(state);
        self.note(written)
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = match ready!(socket::poll_read(&self.client.0.stream, cx, buffer)) {
            Ok(count) => count,
            Err(error) => return self.note(Err(error)),
        };
        if !self.is_under_tls {
            let read = buffer.filled();
            self.client.follow(&read[read.len() - count..])?;
        }
        let mut state = self.client.state();
        match state.activity {
            _ if count == 0 => state.has_ended = true,
            Activity::Idle if !self.client.is_multiplexed() => {
                (state.activity, state.since) = (Activity::Head, Instant::now());
            }
            _ => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called when everything buffered has been written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_under_tls {
            self.client.has_written();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.shut_down();
        Poll::Ready(Ok(()))
    }
}
