//! TCP ingest: one listener feeds one destination; each frame is answered in order, after Redis
//! has it. Where Redis may not take it just now, nothing is read until it may.

mod answers;
mod frame;

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{
    codec::{FramedRead, FramedWrite},
    sync::CancellationToken,
    task::TaskTracker,
};

use super::{Committer, Session, commit::Pending, json::Limits};
use crate::{
    config,
    domain::{Arrival, DestinationName, Envelope, Framing},
    telemetry,
    wire::{FrameCodec, FrameError, answer::ToProducer, code::Code, pace::Pace},
};

/// After so long without a word, a producer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The most KiB of bodies of one connection that are not answered yet (one frame is always taken).
const ROOM_KIB: usize = 4 << 10;
/// Frames that are there together are submitted together: at most so many, and bytes of bodies.
const CHUNK_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// What all TCP listeners share.
#[derive(Clone)]
pub struct Shared {
    /// Where frames go.
    pub committer: Committer,
    /// What bounds the body of a message.
    pub limits: Limits,
    /// Frames of one connection on their way into Redis at once.
    pub frames_in_flight_max: usize,
    /// The least speed of a frame that has begun.
    pub pace: Pace,
    /// Places for connections, over all listeners.
    pub connections: Arc<Semaphore>,
}

/// Accepts connections until `stop`. Connections run on `tracker`, and end soon after.
pub async fn run(
    listener: TcpListener,
    settings: config::TcpListener,
    shared: Shared,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Such as for want of a descriptor: others end.
                telemetry::accept_failed("tcp");
                tracing::warn!(%error, "a TCP connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Beyond the limit producers wait: one here, the others in the listener's queue. A listener that
        // has none takes no place.
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = shared.connections.clone().acquire_owned() => place,
        };
        let connection = Connection {
            destination: settings.destination.clone(),
            framing: settings.framing,
            envelope: settings.envelope,
            shared: shared.clone(),
            turn: Mutex::default(),
            stop: stop.clone(),
        };
        tracker.spawn(async move {
            let _place = place;
            let _open = telemetry::ConnectionOpen::begin("tcp");
            connection.serve(stream).await;
        });
    }
}

/// What was read, on its way to being answered.
enum Read {
    Submitted(Pending, Taken),
    /// It is no message: this is the answer. What comes behind it is taken.
    Refused(ToProducer, Arc<FramePermits>),
    /// The connection ends with this answer.
    Last(ToProducer),
}

/// Frames that were read together, until they are answered: they may have to be submitted again.
struct Taken {
    arrivals: Arc<[Arrival]>,
    share: Arc<FramePermits>,
}

/// A part of what one connection may hold.
struct FramePermits {
    _places: OwnedSemaphorePermit,
    _permit: OwnedSemaphorePermit,
}

type Frames = FramedRead<tokio::net::tcp::OwnedReadHalf, FrameCodec>;

struct Connection {
    destination: DestinationName,
    framing: Framing,
    envelope: Envelope,
    shared: Shared,
    /// Held by whoever submits: the reader, for one chunk at a time, or the writer, until all that
    /// was refused has been taken.
    turn: Mutex<Session>,
    stop: CancellationToken,
}

impl Connection {
    fn codec(&self) -> FrameCodec {
        let longest = frame::bytes_max(self.envelope, self.shared.limits.body_bytes_max);
        FrameCodec::new(self.framing, longest)
    }

    async fn serve(self, stream: TcpStream) {
        // An answer is small and awaited: it must not wait for more to go with it.
        let _ = stream.set_nodelay(true);
        // One that vanished without a word must not keep its place for ever.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let (read, write) = stream.into_split();
        // What it holds is bounded by the shares of the frames in it.
        let (reads, queue) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let writer = answers::answer(&self, FramedWrite::new(write, self.codec()), queue, &ended);
        let reader = async {
            tokio::select! {
                // A frame that waits for its turn must not get it once the connection has ended.
                biased;
                () = ended.cancelled() => {}
                () = self.read_frames(FramedRead::new(read, self.codec()), &reads) => {}
            }
            // Closes the queue: the writer ends once everything is answered.
            drop(reads);
        };
        tokio::join!(reader, writer);
    }

    async fn read_frames(&self, mut stream: Frames, queue: &mpsc::UnboundedSender<Read>) {
        let places_max = self.shared.frames_in_flight_max;
        let places = Arc::new(Semaphore::new(places_max));
        let permit = Arc::new(Semaphore::new(ROOM_KIB));
        loop {
            let first = tokio::select! {
                () = self.stop.cancelled() => return,
                first = self.next_frame(&mut stream) => first,
            };
            let (frames, end) = chunk(first, &mut stream, places_max.min(CHUNK_MAX));
            if !frames.is_empty() {
                let kib: usize = frames.iter().map(|frame| frame.len() / 1024 + 1).sum();
                let places = places.clone().acquire_many_owned(frames.len() as u32).await;
                let permit = permit.clone().acquire_many_owned(kib.min(ROOM_KIB) as u32).await;
                // They are never closed.
                let (Ok(places), Ok(permit)) = (places, permit) else { return };
                let share = Arc::new(FramePermits { _places: places, _permit: permit });
                if !self.take(frames, &share, queue).await {
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

    /// The next frame, which comes fast enough once it has begun.
    async fn next_frame(&self, stream: &mut Frames) -> Option<Result<Bytes, FrameError>> {
        let pace = self.shared.pace;
        // What was there of a frame when the window began.
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

    /// Submits frames that were read together. What is no message is answered in its place. False
    /// when the writer has gone.
    async fn take(
        &self,
        frames: Vec<Bytes>,
        share: &Arc<FramePermits>,
        queue: &mpsc::UnboundedSender<Read>,
    ) -> bool {
        let mut arrivals = Vec::with_capacity(frames.len());
        for frame in frames {
            match frame::read(frame, self.envelope, self.shared.limits) {
                Ok(arrival) => arrivals.push(arrival),
                Err(answer) => {
                    let before = mem::take(&mut arrivals);
                    let refused = Read::Refused(answer, share.clone());
                    if !self.submit(before, share, queue).await || queue.send(refused).is_err() {
                        return false;
                    }
                }
            }
        }
        self.submit(arrivals, share, queue).await
    }

    /// Submits messages when it is the reader's turn. False when the writer has gone.
    async fn submit(
        &self,
        arrivals: Vec<Arrival>,
        share: &Arc<FramePermits>,
        queue: &mpsc::UnboundedSender<Read>,
    ) -> bool {
        if arrivals.is_empty() {
            return true;
        }
        let taken = Taken { arrivals: arrivals.into(), share: share.clone() };
        let session = self.turn.lock().await;
        let pending = self.commit(taken.arrivals.clone(), &session).await;
        // Before the turn is over: whoever has it next finds everything in the queue.
        queue.send(Read::Submitted(pending, taken)).is_ok()
    }

    /// Submits messages when there is room for them.
    async fn commit(&self, arrivals: impl Into<Arc<[Arrival]>>, session: &Session) -> Pending {
        let (arrivals, committer) = (arrivals.into(), &self.shared.committer);
        let bytes = arrivals.iter().map(|arrival| arrival.message.body.bytes.len()).sum();
        let permit = committer.memory().take(bytes).await;
        committer.submit(&self.destination, arrivals, session, permit).await
    }
}

/// Whether a stream of frames goes on.
enum End {
    No,
    Closed,
    Bad(FrameError),
}

/// The frames that are there already, from the first one on, and whether more can come.
fn chunk(
    first: Option<Result<Bytes, FrameError>>,
    stream: &mut Frames,
    count_max: usize,
) -> (Vec<Bytes>, End) {
    let (mut frames, mut bytes, mut next) = (Vec::new(), 0, Some(first));
    while let Some(read) = next {
        match read {
            None => return (frames, End::Closed),
            Some(Err(error)) => return (frames, End::Bad(error)),
            Some(Ok(frame)) => {
                bytes += frame.len();
                frames.push(frame);
            }
        }
        let is_full = frames.len() >= count_max || bytes >= CHUNK_BYTES_MAX;
        next = if is_full { None } else { stream.next().now_or_never() };
    }
    (frames, End::No)
}
