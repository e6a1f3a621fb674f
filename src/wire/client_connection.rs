//! The client of an HTTP connection, as this process sees it: its current activity, and whether it
//! can still receive its answer.

mod body;
mod stream;
mod tls;

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
pub use stream::ClientIo;
pub use tls::TlsIo;

/// If a client had closed the connection before its answer arrived, its system resets the
/// connection within this time.
const RESET_WITHIN: Duration = Duration::from_secs(1);

/// The activity of a connection's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No request has begun since the last answer.
    Idle,
    /// The head of a request has begun but not ended.
    Head,
    /// A request is being read, handled or answered.
    Busy,
    /// The connection is being closed to free its slot; no more requests are accepted.
    Closing,
}

/// Called when an answer is known to be lost.
pub type Lost = Box<dyn FnOnce() + Send>;

/// The client of one HTTP connection. Cheap to clone.
#[derive(Clone)]
pub struct ClientConnection(Arc<Inner>);

struct Inner {
    stream: TcpStream,
    state: Mutex<State>,
    closing: CancellationToken,
}

struct State {
    activity: Activity,
    /// When the activity began; for an idle client, also when it last read a part of its answer.
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

impl ClientConnection {
    /// The client of this connection. Data that it does not acknowledge within this time counts as
    /// lost, and the connection ends.
    pub fn new(stream: TcpStream, unacknowledged_max: Duration) -> ClientConnection {
        // Answers are small and awaited, so send them at once.
        let _ = stream.set_nodelay(true);
        // No keepalive: a time-out of the connection then always means that sent data was lost.
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(unacknowledged_max));
        let state = State {
            activity: Activity::Idle,
            since: Instant::now(),
            has_ended: false,
            error: None,
            unconfirmed: None,
        };
        ClientConnection(Arc::new(Inner {
            stream,
            state: Mutex::new(state),
            closing: CancellationToken::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its activity, and since when.
    pub fn activity(&self) -> (Activity, Instant) {
        let state = self.state();
        (state.activity, state.since)
    }

    /// A request has begun, so the client got its last answer. False if the connection is closing.
    pub fn begin(&self) -> bool {
        let mut state = self.state();
        state.unconfirmed = None;
        if state.activity == Activity::Closing {
            return false;
        }
        state.activity = Activity::Busy;
        true
    }

    /// The answer is complete and being sent.
    fn end(&self) {
        let mut state = self.state();
        if state.activity == Activity::Busy {
            (state.activity, state.since) = (Activity::Idle, Instant::now());
        }
    }

    /// Closes the connection unless a request is in progress.
    pub fn close_unless_busy(&self) -> bool {
        let mut state = self.state();
        if matches!(state.activity, Activity::Busy | Activity::Closing) {
            return false;
        }
        state.activity = Activity::Closing;
        self.0.closing.cancel();
        true
    }

    /// Resolves when the connection must be closed.
    pub async fn closing(&self) {
        self.0.closing.cancelled().await;
    }

    /// Resolves when the connection has failed: reset or timed out.
    pub async fn failed(&self) {
        let failed = self.0.stream.ready(Interest::ERROR).await;
        let error = self.0.stream.take_error().ok().flatten().or(failed.err());
        let mut state = self.state();
        state.error = state.error.or(error.map(|error| error.kind()));
    }

    /// Resolves when the client has closed its direction: it is gone, or only waits for its answer.
    /// Never resolves while there is unread input.
    pub async fn left(&self) {
        match self.0.stream.peek(&mut [0]).await {
            Ok(1..) => std::future::pending().await,
            Ok(0) => self.state().has_ended = true,
            Err(error) => self.state().error = Some(error.kind()),
        }
    }

    /// Closes this side's direction.
    pub fn shut_down(&self) {
        let _ = SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Write);
    }

    /// Reads and discards input, so that a reset does not cut off the last answer. Ends with the
    /// input, or after the time in which a reset must arrive.
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

    /// Decides, at the end of the connection, whether the last answer was lost.
    ///
    /// It counts as lost if it was not written completely, if the client's system did not
    /// acknowledge it in time, or if the client had closed the connection before. It does not count
    /// as lost if the client, or only its system, received the answer and then died.
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

    /// The stream, for the server of the connection.
    pub fn io(&self) -> ClientIo {
        ClientIo::new(self.clone(), false)
    }

    /// The stream under TLS, for the handshake and for [`TlsIo`].
    pub fn io_under_tls(&self) -> ClientIo {
        ClientIo::new(self.clone(), true)
    }

    /// Everything that the server has was written.
    fn has_written(&self) {
        if let Some(unconfirmed) = &mut self.state().unconfirmed {
            unconfirmed.is_written = true;
        }
    }

    /// Wraps the answer's body, whose end marks the answer as complete.
    pub fn answering(&self, body: Body) -> Body {
        Body::new(Answering::new(body, self.clone()))
    }
}
