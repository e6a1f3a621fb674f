//! TCP ingest: one listener per destination. Answers each frame in order, once Redis has stored it. Does not read a
//! connection while arrivals are refused for now.

mod answers;
mod auth;
mod chunk;
mod frame;
mod unverified;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{
    codec::{FramedRead, FramedWrite},
    sync::CancellationToken,
    task::TaskTracker,
};

pub use unverified::Unverified;

use chunk::{End, chunk};

use super::{
    Committer, Refusal, Session,
    commit::{CopyResult, Pending},
    draft::copy_of,
    json::Limits,
    rates::Rates,
};
use access::Guard;
use domain::{DestinationName, Envelope, Framing};
use formats::{FrameCodec, FrameError, code::Code, tcp_answer::ToProducer};
use http_server::{
    concurrency_limit::{ConcurrencyLimit, peer_of},
    min_rate::MinRate,
    problem::Problem,
    socket::Socket,
};
use store::CatalogEntry;
use tls::{Acceptor, HANDSHAKE_MAX, Subject};

/// After this idle time, TCP keepalive probes whether the producer is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The most KiB of unanswered bodies per connection (a connection takes at least one frame).
const ROOM_KIB: usize = 4 << 10;
/// The most frames that are submitted together.
const CHUNK_MAX: usize = 256;

/// State that all TCP listeners share.
#[derive(Clone)]
pub struct Shared {
    /// Stamps the frames.
    pub committer: Committer,
    /// Limits of a message's body.
    pub limits: Limits,
    /// The most unanswered frames per connection.
    pub frames_in_flight_max: usize,
    /// The minimum speed of a frame that has begun.
    pub pace: MinRate,
    /// The limit of connections, over all listeners.
    pub connections: Arc<Semaphore>,
    /// The unverified connections. At the limit, they yield their places.
    pub unverified: Unverified,
    /// The most connections of one address at each listener; 0: no limit.
    pub connections_per_address_max: usize,
    /// Checks who may send.
    pub guard: Guard,
    /// The rates of tokens.
    pub rates: Rates,
}

/// Accepts connections until `stop`. They run on `tracker`, and end soon after `stop`.
pub async fn run(
    listener: TcpListener,
    settings: config::TcpListener,
    tls: Option<Acceptor>,
    shared: Shared,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    let by_address = ConcurrencyLimit::new(shared.connections_per_address_max);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // For example, no file descriptor is free. Waits until other connections end.
                telemetry::accept_failed("tcp");
                tracing::warn!(%error, "a TCP connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(of_address) = by_address.take(peer_of(address.ip())) else {
            telemetry::connection_closed("address");
            continue;
        };
        // At the limit, one connection waits here, and the others in the queue of the listener. An idle listener holds
        // no permit.
        if shared.connections.available_permits() == 0 && shared.unverified.displace_oldest() {
            telemetry::connection_closed("displaced");
        }
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = shared.connections.clone().acquire_owned() => place,
        };
        let connection = Connection {
            destination: settings.destination.clone(),
            framing: settings.framing,
            envelope: settings.envelope,
            // The handshake checks the certificate before the connection is used.
            has_certificate: settings.auth == config::TcpAuth::Certificate,
            shared: shared.clone(),
            turn: Mutex::default(),
            stop: stop.clone(),
        };
        let tls = tls.clone();
        let unverified = (!shared.guard.is_open()).then(|| shared.unverified.add());
        tracker.spawn(async move {
            let _held = (place, of_address);
            let _open = telemetry::ConnectionOpen::begin("tcp");
            let closing = unverified.as_deref().cloned().unwrap_or_default();
            closing.run_until_cancelled(connection.serve(stream, tls, unverified)).await;
        });
    }
}

/// One or more frames, on the way to their answers.
enum Read {
    Submitted(Pending, Taken),
    /// The answer to a frame that is not a message.
    Answer(ToProducer),
    /// The last answer of the connection.
    Last(ToProducer),
}

/// Frames of one chunk. They are kept until answered, because they may have to be submitted again.
struct Taken {
    copies: Arc<[CopyResult]>,
    share: Arc<FramePermits>,
}

/// A part of the limits of one connection, held by a chunk.
struct FramePermits {
    _places: OwnedSemaphorePermit,
    _permit: OwnedSemaphorePermit,
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;
type Frames = FramedRead<Reader, FrameCodec>;

struct Connection {
    destination: DestinationName,
    framing: Framing,
    envelope: Envelope,
    /// True if producers authenticate with a certificate, not with a token.
    has_certificate: bool,
    shared: Shared,
    /// Held while submitting: by the reader for one chunk, or by the writer until all refused frames are stored.
    turn: Mutex<Session>,
    stop: CancellationToken,
}

impl Connection {
    fn codec(&self) -> FrameCodec {
        let longest = frame::bytes_max(self.envelope, self.shared.limits.body_bytes_max);
        FrameCodec::new(self.framing, longest)
    }

    async fn serve(
        self,
        stream: TcpStream,
        tls: Option<Acceptor>,
        unverified: Option<Arc<CancellationToken>>,
    ) {
        // Answers are small, and the producer waits for them: send them at once.
        let _ = stream.set_nodelay(true);
        // A producer that has vanished must not hold its connection for ever.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let socket = Socket::new(stream);
        let Some((read, write, certificate)) = self.opened(&socket, tls).await else { return };
        // If the listener needs a certificate, the handshake has already verified the connection.
        let unverified = unverified.filter(|_| !self.has_certificate);
        // The permits of its frames limit this queue.
        let (reads, queue) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let writer = {
            let write = FramedWrite::new(write, self.codec());
            answers::answer(&self, write, socket, queue, &ended)
        };
        let reader = async {
            let frames = FramedRead::new(read, self.first_codec());
            tokio::select! {
                // Once the connection has ended, this must not submit a waiting frame.
                biased;
                () = ended.cancelled() => {}
                () = self.read_frames(frames, (certificate, unverified), &reads) => {}
            }
            // Closes the queue: the writer ends once all frames are answered.
            drop(reads);
        };
        tokio::join!(reader, writer);
    }

    /// Opens both directions of the connection, over TLS if the listener has certificates. Also returns the producer's
    /// certificate.
    async fn opened(
        &self,
        socket: &Socket,
        tls: Option<Acceptor>,
    ) -> Option<(Reader, Writer, Option<Subject>)> {
        let Some(acceptor) = tls else {
            return Some((Box::new(socket.clone()), Box::new(socket.clone()), None));
        };
        let shaken = tokio::select! {
            () = self.stop.cancelled() => return None,
            shaken = timeout(HANDSHAKE_MAX, acceptor.accept(socket.clone())) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let certificate = tls::subject_of(&stream);
                let (read, write) = tokio::io::split(stream);
                return Some((Box::new(read), Box::new(write), certificate));
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a producer and this process found no way to speak TLS");
            }
            Err(_) => tracing::debug!("a producer did not finish its handshake in time"),
        }
        telemetry::connection_closed("handshake");
        None
    }

    async fn read_frames(
        &self,
        mut stream: Frames,
        (certificate, mut unverified): (Option<Subject>, Option<Arc<CancellationToken>>),
        queue: &mpsc::UnboundedSender<Read>,
    ) {
        let places_max = self.shared.frames_in_flight_max;
        let places = Arc::new(Semaphore::new(places_max));
        let permit = Arc::new(Semaphore::new(ROOM_KIB));
        let (mut shown, mut is_first) = (self.certified(certificate), true);
        loop {
            let first = tokio::select! {
                () = self.stop.cancelled() => return,
                first = self.next_allowed(&mut stream, &mut shown) => first,
            };
            let first = match first {
                Ok(first) => first,
                Err(problem) => {
                    let _ = queue.send(Read::Last(refusal_of(problem)));
                    return;
                }
            };
            if let Some(Ok(frame)) = &first {
                if is_first && auth::is_of_another_protocol(frame) {
                    let sentence = "the connection begins like one of HTTP or the PROXY protocol, and this \
                                    listener takes frames; the connection is closed";
                    let (code, sentence) = (Code::InvalidFrame, sentence.into());
                    let _ = queue.send(Read::Last(ToProducer::Err { code, sentence }));
                    return;
                }
                let authenticated =
                    is_first.then(|| self.authenticate(frame, &mut shown)).flatten();
                if std::mem::take(&mut is_first) {
                    *stream.decoder_mut() = self.codec();
                }
                let answer = match authenticated {
                    Some(answer) => answer.map(Some),
                    None => self.check(&mut shown).map(|()| None),
                };
                match answer {
                    Ok(None) => {}
                    Ok(Some(answer)) => {
                        drop(unverified.take());
                        let _ = queue.send(Read::Answer(answer));
                        continue;
                    }
                    Err(problem) => {
                        let _ = queue.send(Read::Last(refusal_of(problem)));
                        return;
                    }
                }
            }
            let (frames, end) = chunk(first, &mut stream, places_max.min(CHUNK_MAX));
            if !frames.is_empty() && !self.waits_for_rate(&shown, frames.len()).await {
                return;
            }
            if !frames.is_empty() {
                let kib: usize = frames.iter().map(|frame| frame.len() / 1024 + 1).sum();
                let places = places.clone().acquire_many_owned(frames.len() as u32).await;
                let permit = permit.clone().acquire_many_owned(kib.min(ROOM_KIB) as u32).await;
                // Never fails, because nothing closes the semaphores.
                let (Ok(places), Ok(permit)) = (places, permit) else { return };
                let share = Arc::new(FramePermits { _places: places, _permit: permit });
                if !self.take(frames, self.has_proof(&shown), share, queue).await {
                    return;
                }
            }
            let error = match end {
                End::No => continue,
                End::Closed | End::Bad(FrameError::Io(_)) => return,
                End::Bad(error) => error,
            };
            let code = match error {
                FrameError::TooLong { .. } => Code::BodyTooLarge,
                FrameError::TooSlow => Code::FrameTimeout,
                _ => Code::InvalidFrame,
            };
            let sentence = format!("{error}; the connection is closed").into();
            let _ = queue.send(Read::Last(ToProducer::Err { code, sentence }));
            return;
        }
    }

    /// The next frame. Once a frame has begun, it must arrive at the configured speed.
    async fn next_frame(&self, stream: &mut Frames) -> Option<Result<Bytes, FrameError>> {
        let pace = self.shared.pace;
        // The size of the incomplete frame at the start of the window.
        let mut before = None;
        loop {
            if let Ok(frame) = timeout(pace.window, stream.next()).await {
                return frame;
            }
            let there = stream.read_buffer().len();
            if before.is_some_and(|before| !pace.is_kept(there.saturating_sub(before))) {
                telemetry::connection_closed("slow_frame");
                return Some(Err(FrameError::TooSlow));
            }
            before = (there > 0).then_some(there);
        }
    }

    /// Submits frames of one chunk, once the reader may. False when no more frames may be read.
    async fn take(
        &self,
        frames: Vec<Bytes>,
        has_proof: bool,
        share: Arc<FramePermits>,
        queue: &mpsc::UnboundedSender<Read>,
    ) -> bool {
        let entry = self.entry(has_proof).await;
        let copies = self.copies(frames, &entry).await;
        // Later frames would overtake the refused frame.
        let is_last = copies.iter().any(|copy| copy.as_ref().is_err_and(Refusal::is_temporary));
        let taken = Taken { copies: copies.into(), share };
        let session = self.turn.lock().await;
        let pending = self.commit(&entry, taken.copies.clone(), &session).await;
        // Before the lock is released: the writer must find all submitted frames in the queue.
        queue.send(Read::Submitted(pending, taken)).is_ok() && !is_last
    }

    /// The definition of the destination, or the reason why it accepts no frames now.
    async fn entry(&self, has_proof: bool) -> Result<Arc<CatalogEntry>, Refusal> {
        let entry = self.shared.committer.find(&self.destination).await?;
        match entry.destination.verify.is_some() && !has_proof {
            true => Err(Refusal::NoSignature),
            false => Ok(entry),
        }
    }

    /// Parses each frame into an arrival for the destination, or the reason why it is refused.
    async fn copies(
        &self,
        frames: Vec<Bytes>,
        entry: &Result<Arc<CatalogEntry>, Refusal>,
    ) -> Vec<CopyResult> {
        let copy = |frame| {
            let arrival = frame::read(frame, self.envelope, self.shared.limits);
            let entry = entry.as_ref().map_err(Refusal::clone)?;
            copy_of(arrival.map_err(Refusal::Invalid)?, None, &entry.destination)
        };
        let copies = frames.into_iter().map(copy);
        match entry {
            Ok(entry) if entry.destination.has_key_sources() => {
                let (copies, keys) =
                    (copies.map(|copy| (copy, None)), self.shared.committer.keys());
                // Boxed, because most destinations do not need this large future.
                Box::pin(keys.find_all(copies.collect(), &entry.destination, &self.stop)).await
            }
            _ => copies.collect(),
        }
    }

    /// Acquires memory for copies, and submits them.
    async fn commit(
        &self,
        entry: &Result<Arc<CatalogEntry>, Refusal>,
        copies: impl Into<Arc<[CopyResult]>>,
        session: &Session,
    ) -> Pending {
        let (copies, committer) = (copies.into(), &self.shared.committer);
        let bytes = copies.iter().flatten().map(|copy| copy.message.body.bytes.len()).sum();
        let permit = committer.memory().take(bytes).await;
        committer.submit(entry, copies, session, permit).await
    }
}

/// The answer to a connection that may not send. It closes the connection.
fn refusal_of(problem: Problem) -> ToProducer {
    let sentence = format!("{}; the connection is closed", problem.detail).into();
    ToProducer::Err { code: problem.code, sentence }
}
