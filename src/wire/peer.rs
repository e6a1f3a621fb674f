//! The other end of an HTTP connection, as far as this process can know it: what it is doing, and
//! whether it can still get what it is sent.

mod body;
mod stream;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use socket2::SockRef;
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use body::Answering;
pub use body::Tracked;
pub use stream::PeerIo;

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
        PeerIo::new(self.clone())
    }

    /// This body, whose end says that the answer is on its way.
    pub fn answering(&self, body: Body) -> Body {
        Body::new(Answering::new(body, self.clone()))
    }
}
