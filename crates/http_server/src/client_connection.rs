//! The client of an HTTP connection: its current activity, and whether it can still receive its answer.

mod body;
mod heads;
mod stream;
mod strict;
mod tls;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use socket2::SockRef;
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

pub use body::{Begun, Tracked};
use heads::Heads;
pub use stream::ClientIo;
pub use strict::Ambiguous;
use strict::Framing;
pub use strict::HEAD_BYTES_MAX;
pub use tls::TlsIo;

use ::tls::Subject;

/// The system of a client that closed the connection before its answer arrived resets the connection within this time.
const RESET_WITHIN: Duration = Duration::from_secs(1);
/// A client has this time to show its credential. After that, the connection is the first to yield its slot.
const CREDENTIAL_WITHIN: Duration = Duration::from_secs(5);

/// The order in which connections yield their slots. Within one rank, the oldest yields first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Yields {
    /// The client has shown no credential within `CREDENTIAL_WITHIN`.
    LongUnverified,
    /// The client has shown a credential, and has no request in progress.
    Idle,
    /// The client has a request in progress, but has shown no credential.
    Unverified,
    /// The connection is new: a request with a credential may be on its way.
    New,
}

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
    address: Option<SocketAddr>,
    certificate: OnceLock<Subject>,
    /// True for HTTP/2, which allows several requests at a time.
    is_multiplexed: AtomicBool,
    /// True once the client has shown a valid credential, or if it needs none.
    is_verified: AtomicBool,
    state: Mutex<State>,
    closing: CancellationToken,
}

struct State {
    /// When the connection began.
    began: Instant,
    activity: Activity,
    /// How many requests are in progress.
    requests: usize,
    /// HTTP/2: for each request with a part of its answer that waits for the client to read it, since when.
    unread: HashMap<u64, Instant>,
    /// The number of the last request.
    last: u64,
    /// When the activity began. While the client is idle: when a part of its last answer was written to the socket, if
    /// that is later.
    since: Instant,
    has_ended: bool,
    error: Option<io::ErrorKind>,
    unconfirmed: Option<Unconfirmed>,
    /// HTTP/1: the framing of the client's requests.
    framing: Framing,
    /// HTTP/2: the heads of the client's requests, and since when a head is incomplete.
    heads: Heads,
    head_since: Option<Instant>,
    ambiguous: Option<Ambiguous>,
}

/// An answer that may not have arrived.
struct Unconfirmed {
    lost: Lost,
    is_written: bool,
}

impl ClientConnection {
    /// If the client does not acknowledge data within `unacknowledged_max`, the data counts as
    /// lost, and the connection ends.
    pub fn new(stream: TcpStream, unacknowledged_max: Duration) -> ClientConnection {
        // Answers are small and awaited, so send them at once.
        let _ = stream.set_nodelay(true);
        // No keepalive: a time-out of the connection then always means that sent data was lost.
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(unacknowledged_max));
        let now = Instant::now();
        let state = State {
            began: now,
            activity: Activity::Idle,
            requests: 0,
            unread: HashMap::new(),
            last: 0,
            since: now,
            has_ended: false,
            error: None,
            unconfirmed: None,
            framing: Framing::default(),
            heads: Heads::default(),
            head_since: None,
            ambiguous: None,
        };
        ClientConnection(Arc::new(Inner {
            address: stream.peer_addr().ok(),
            certificate: OnceLock::new(),
            is_multiplexed: AtomicBool::new(false),
            is_verified: AtomicBool::new(false),
            stream,
            state: Mutex::new(state),
            closing: CancellationToken::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// The address and port of the client, if they are known.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address
    }

    /// The identity in the client's certificate, if it has shown one.
    pub fn certificate(&self) -> Option<&Subject> {
        self.0.certificate.get()
    }

    /// Notes the identity in the client's certificate.
    pub fn note_certificate(&self, subject: Subject) {
        let _ = self.0.certificate.set(subject);
    }

    /// From now on, the client may have several requests at a time (HTTP/2).
    pub fn multiplex(&self) {
        self.0.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// True if the client may have several requests at a time.
    pub fn is_multiplexed(&self) -> bool {
        self.0.is_multiplexed.load(Ordering::Relaxed)
    }

    /// Notes that the client has shown a valid credential, or needs none. From now on, the connection yields its slot
    /// only while no request is in progress.
    pub fn verify(&self) {
        self.0.is_verified.store(true, Ordering::Relaxed);
    }

    fn is_verified(&self) -> bool {
        self.0.is_verified.load(Ordering::Relaxed)
    }

    /// The current activity, and since when.
    pub fn activity(&self) -> (Activity, Instant) {
        let state = self.state();
        (state.activity, state.since)
    }

    /// Over HTTP/2: since when an answer waits for the client to read.
    pub fn unread_since(&self) -> Option<Instant> {
        self.state().unread.values().min().copied()
    }

    /// Over HTTP/2: since when the head of a request is incomplete.
    pub fn head_since(&self) -> Option<Instant> {
        self.state().head_since
    }

    /// Follows the bytes that the server is about to read. An error if two programs could read them in different ways.
    fn follow(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if self.is_multiplexed() {
            let (was_whole, is_whole) = state.heads.follow(bytes);
            let since = state.head_since.filter(|_| !was_whole);
            state.head_since = (!is_whole).then(|| since.unwrap_or_else(Instant::now));
            return Ok(());
        }
        state.framing.follow(bytes).map_err(|ambiguous| {
            // While another request is in progress, the client would take this answer for that
            // request's answer. A request with an ambiguous body gets its own answer.
            let is_unanswered = state.activity != Activity::Busy;
            state.ambiguous = Some(ambiguous).filter(|_| is_unanswered);
            io::Error::new(io::ErrorKind::InvalidData, ambiguous)
        })
    }

    /// Why the last request is ambiguous, if the server has not answered it yet.
    pub fn ambiguous(&self) -> Option<Ambiguous> {
        self.state().ambiguous
    }

    /// Notes that a request has begun: so the client received its last answer. `None` if the connection is closing.
    pub fn begin(&self) -> Option<Begun> {
        let mut state = self.state();
        state.unconfirmed = None;
        if state.activity == Activity::Closing {
            return None;
        }
        state.activity = Activity::Busy;
        state.requests += 1;
        state.last += 1;
        Some(Begun::new(self.clone(), state.last))
    }

    /// Notes that the answer was handed over completely, or was abandoned.
    fn end(&self, number: u64) {
        let mut state = self.state();
        state.requests -= 1;
        state.unread.remove(&number);
        if state.activity == Activity::Busy && state.requests == 0 {
            (state.activity, state.since) = (Activity::Idle, Instant::now());
        }
    }

    /// Notes whether a part of an answer waits for the client to read.
    fn note_unread(&self, number: u64, waits: bool) {
        if !self.is_multiplexed() {
            return;
        }
        let mut state = self.state();
        match waits {
            true => drop(state.unread.insert(number, Instant::now())),
            false => drop(state.unread.remove(&number)),
        }
    }

    /// The rank in which the connection yields its slot, and when its activity began; `None` if it does not yield.
    pub fn yields(&self) -> Option<(Yields, Instant)> {
        let state = self.state();
        let (is_verified, is_old) = (self.is_verified(), state.began.elapsed() > CREDENTIAL_WITHIN);
        let rank = match state.activity {
            Activity::Closing => return None,
            _ if !is_verified && is_old => Yields::LongUnverified,
            Activity::Busy if is_verified => return None,
            Activity::Busy => Yields::Unverified,
            Activity::Idle | Activity::Head if is_verified => Yields::Idle,
            Activity::Idle | Activity::Head => Yields::New,
        };
        Some((rank, state.since))
    }

    /// Closes the connection, if it still yields its slot.
    pub fn displace(&self) -> bool {
        let mut state = self.state();
        let is_kept = state.activity == Activity::Busy && self.is_verified();
        if is_kept || state.activity == Activity::Closing {
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

    /// Resolves when the client has closed its direction: the client is gone, or only waits for
    /// its answer. Never resolves while there is unread input.
    pub async fn left(&self) {
        match self.0.stream.peek(&mut [0]).await {
            Ok(1..) => std::future::pending().await,
            Ok(0) => self.state().has_ended = true,
            Err(error) => self.state().error = Some(error.kind()),
        }
    }

    /// Closes the direction from this side to the client.
    pub fn shut_down(&self) {
        let _ = SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Write);
    }

    /// Reads and discards input, so that a reset does not cut off the last answer. Ends with the
    /// input, or after [`RESET_WITHIN`].
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
    /// The answer counts as lost if it was not written completely, if the client's system did not
    /// acknowledge it in time, or if the client had closed the connection before. It does not
    /// count as lost if the client, or only its system, received the answer and then died.
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

    /// Notes that everything from the server was written.
    fn has_written(&self) {
        if let Some(unconfirmed) = &mut self.state().unconfirmed {
            unconfirmed.is_written = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A client whose connection began this long ago.
    async fn client(age: Duration) -> ClientConnection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let client = ClientConnection::new(stream, Duration::from_secs(1));
        client.state().began = Instant::now().checked_sub(age).unwrap();
        client
    }

    fn rank(client: &ClientConnection) -> Option<Yields> {
        client.yields().map(|(rank, _)| rank)
    }

    #[tokio::test]
    async fn requests_without_a_credential_do_not_make_a_connection_new_again() {
        let old = client(CREDENTIAL_WITHIN * 2).await;
        // As a request for /healthz.
        drop(old.begin());
        let new = client(Duration::ZERO).await;
        assert_eq!((rank(&old), rank(&new)), (Some(Yields::LongUnverified), Some(Yields::New)));
        let request = new.begin();
        assert_eq!(rank(&new), Some(Yields::Unverified));
        [&old, &new].into_iter().for_each(ClientConnection::verify);
        assert_eq!((rank(&old), rank(&new)), (Some(Yields::Idle), None));
        drop(request);
        assert_eq!(rank(&new), Some(Yields::Idle));
    }
}
