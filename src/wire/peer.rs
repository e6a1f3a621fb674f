//! The other end of an HTTP connection, as far as this process can know it: what it is doing, and
//! whether it can still get what it is sent.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// A client that had closed the connection before its answer came says so within this time: its
/// system resets the connection when the answer arrives.
const RESET_WITHIN: Duration = Duration::from_secs(1);

/// What the client of a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It has not begun a request since its last answer.
    Idle,
    /// The head of a request has begun and not ended.
    Head,
    /// A request is being handled, or its body read, or its answer made.
    Busy,
    /// The connection is being closed to make room; nothing more is taken over it.
    Closing,
}

/// What to do when an answer is known not to have arrived.
pub type Lost = Box<dyn FnOnce() + Send>;

/// The other end of one HTTP connection. Cheap to clone.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    stream: TcpStream,
    state: Mutex<State>,
    closing: CancellationToken,
}

struct State {
    activity: Activity,
    /// When that began; of an idle one also when it last took a part of its answer.
    since: Instant,
    has_ended: bool,
    error: Option<io::ErrorKind>,
    unconfirmed: Option<Unconfirmed>,
}

/// An answer that may not have arrived.
struct Unconfirmed {
    lost: Lost,
    is_written: bool,
}

impl Peer {
    /// The other end of this connection. What is sent and not acknowledged for so long is lost, and the
    /// connection with it.
    pub fn new(stream: TcpStream, unacknowledged_max: Duration) -> Peer {
        // An answer is small and awaited: it must not wait for more to go with it.
        let _ = stream.set_nodelay(true);
        // No keepalive beside it: a time-out of the connection then means that what was sent is lost.
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(unacknowledged_max));
        let state = State {
            activity: Activity::Idle,
            since: Instant::now(),
            has_ended: false,
            error: None,
            unconfirmed: None,
        };
        Peer(Arc::new(Inner {
            stream,
            state: Mutex::new(state),
            closing: CancellationToken::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is doing, and since when.
    pub fn activity(&self) -> (Activity, Instant) {
        let state = self.state();
        (state.activity, state.since)
    }

    /// A request has come; it has therefore got its last answer. False if the connection is closing.
    pub fn begin(&self) -> bool {
        let mut state = self.state();
        state.unconfirmed = None;
        if state.activity == Activity::Closing {
            return false;
        }
        state.activity = Activity::Busy;
        true
    }

    /// The answer is made, and on its way.
    fn end(&self) {
        let mut state = self.state();
        if state.activity == Activity::Busy {
            (state.activity, state.since) = (Activity::Idle, Instant::now());
        }
    }

    /// Closes the connection, unless a request is being handled.
    pub fn close_unless_busy(&self) -> bool {
        let mut state = self.state();
        if matches!(state.activity, Activity::Busy | Activity::Closing) {
            return false;
        }
        state.activity = Activity::Closing;
        self.0.closing.cancel();
        true
    }

    /// Resolves when the connection is to be closed.
    pub async fn closing(&self) {
        self.0.closing.cancelled().await;
    }

    /// Resolves when the connection has failed: reset, or timed out.
    pub async fn failed(&self) {
        let failed = self.0.stream.ready(Interest::ERROR).await;
        let error = self.0.stream.take_error().ok().flatten().or(failed.err());
        let mut state = self.state();
        state.error = state.error.or(error.map(|error| error.kind()));
    }

    /// Resolves when the client has closed its direction: it is gone, or sends nothing more and waits
    /// for its answer. Never while there is something unread.
    pub async fn left(&self) {
        match self.0.stream.peek(&mut [0]).await {
            Ok(1..) => std::future::pending().await,
            Ok(0) => self.state().has_ended = true,
            Err(error) => self.state().error = Some(error.kind()),
        }
    }

    /// Writes this without waiting, as far as it goes.
    pub fn say(&self, text: &[u8]) {
        let _ = self.0.stream.try_write(text);
    }

    /// Says that nothing more comes from here.
    pub fn shut_down(&self) {
        let _ = SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Write);
    }

    /// Reads what still comes, and forgets it, so that what was said last is not cut off by a reset:
    /// to the end, or for as long as one that has closed before may take to say so.
    pub async fn drain(&self) {
        let mut rest = vec![0; 16 << 10];
        let drained = async {
            while let Ok(()) = self.0.stream.readable().await {
                match self.0.stream.try_read(&mut rest) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(0) => {
                        self.state().has_ended = true;
                        return;
                    }
                    Err(error) => {
                        self.state().error = Some(error.kind());
                        return;
                    }
                }
            }
        };
        let _ = timeout(RESET_WITHIN, drained).await;
    }

    /// Settles what became of the last answer when the connection is over.
    ///
    /// It is known to be lost where it was not written to its end, where what was written was not
    /// acknowledged in time, and where the client had closed the connection before it came. A client
    /// that read its answer and died is none of these, nor is one whose system had taken the answer.
    pub async fn settle(&self) {
        let (unconfirmed, has_ended) = {
            let mut state = self.state();
            (state.unconfirmed.take(), state.has_ended)
        };
        let Some(Unconfirmed { lost, is_written }) = unconfirmed else { return };
        if is_written && has_ended {
            let _ = timeout(RESET_WITHIN, self.failed()).await;
        }
        let error = self.state().error;
        let is_reset = has_ended && error.is_some();
        if !is_written || is_reset || error == Some(io::ErrorKind::TimedOut) {
            lost();
        }
    }

    /// The stream, to be read and written by the one that serves the connection.
    pub fn io(&self) -> PeerIo {
        PeerIo(self.clone())
    }

    /// This body, whose end says that the answer is on its way.
    pub fn answering(&self, body: Body) -> Body {
        Body::new(Answering { body, peer: self.clone() })
    }
}

/// The stream of a [`Peer`].
pub struct PeerIo(Peer);

impl PeerIo {
    fn note<T>(&self, result: io::Result<T>) -> Poll<io::Result<T>> {
        if let Err(error) = &result {
            self.0.state().error = Some(error.kind());
        }
        Poll::Ready(result)
    }

    fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0.0.stream;
        loop {
            if let Err(error) = ready!(stream.poll_write_ready(cx)) {
                return self.note(Err(error));
            }
            match write(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    let mut state = self.0.state();
                    if state.activity == Activity::Idle {
                        state.since = Instant::now();
                    }
                    drop(state);
                    return self.note(written);
                }
            }
        }
    }
}

impl AsyncRead for PeerIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &self.0.0.stream;
        loop {
            if let Err(error) = ready!(stream.poll_read_ready(cx)) {
                return self.note(Err(error));
            }
            match stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return self.note(Err(error)),
                Ok(count) => {
                    buffer.advance(count);
                    let mut state = self.0.state();
                    match state.activity {
                        _ if count == 0 => state.has_ended = true,
                        Activity::Idle => {
                            (state.activity, state.since) = (Activity::Head, Instant::now());
                        }
                        _ => {}
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for PeerIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called when all that was buffered is written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(unconfirmed) = &mut self.0.state().unconfirmed {
            unconfirmed.is_written = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shut_down();
        Poll::Ready(Ok(()))
    }
}

/// Passes a body on; at its end the answer is made.
struct Answering {
    body: Body,
    peer: Peer,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.peer.end();
    }
}

/// A body of which somebody wants to know when it is lost.
pub struct Tracked {
    body: Full<Bytes>,
    peer: Option<Peer>,
    lost: Option<Lost>,
}

impl Tracked {
    /// These bytes for this client; `lost` is called when they are known not to have arrived.
    pub fn new(bytes: Bytes, peer: Option<Peer>, lost: Lost) -> Tracked {
        Tracked { body: Full::new(bytes), peer, lost: Some(lost) }
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // All of it is with the connection now, which knows what becomes of it.
        if let (Some(peer), Some(lost)) = (&self.peer.take(), self.lost.take()) {
            peer.left().now_or_never();
            peer.state().unconfirmed = Some(Unconfirmed { lost, is_written: false });
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            lost();
        }
    }
}
