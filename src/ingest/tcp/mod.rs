//! TCP ingest: one listener feeds one destination; each frame is answered in order, after Redis
//! has it. Where Redis may not take it just now, nothing is read until it may.

mod answers;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::{
    codec::{FramedRead, FramedWrite},
    sync::CancellationToken,
    task::TaskTracker,
};

use super::{Committer, Session, commit::Pending};
use crate::{
    config,
    domain::{Arrival, Body, DestinationName, Framing, Message},
    store::server_clock_ms,
    wire::{FrameCodec, FrameError, answer::ToProducer},
};

/// After so long without a word, a producer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The most KiB of bodies of one connection that are not answered yet (one frame is always taken).
const ROOM_KIB: usize = 4 << 10;

/// What all TCP listeners share.
#[derive(Clone)]
pub struct Shared {
    /// Where frames go.
    pub committer: Committer,
    /// The longest frame, in bytes.
    pub frame_bytes_max: usize,
    /// Frames of one connection on their way into Redis at once.
    pub frames_in_flight_max: usize,
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
        // Beyond the limit, producers wait in the listener's queue.
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = shared.connections.clone().acquire_owned() => place,
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a TCP connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection = Connection {
            destination: settings.destination.clone(),
            framing: settings.framing,
            shared: shared.clone(),
            turn: Mutex::default(),
            stop: stop.clone(),
        };
        tracker.spawn(async move {
            let _place = place;
            connection.serve(stream).await;
        });
    }
}

/// What was read, on its way to being answered.
enum Frame {
    Submitted(Pending, Taken),
    /// The connection ends with this answer.
    Last(ToProducer),
}

/// A frame that was read, until it is answered: it may have to be submitted again.
struct Taken {
    arrival: Box<Arrival>,
    /// Its share of what one connection may hold.
    _share: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

struct Connection {
    destination: DestinationName,
    framing: Framing,
    shared: Shared,
    /// Held by whoever submits: the reader, for one frame at a time, or the writer, until all that
    /// was refused has been taken.
    turn: Mutex<Session>,
    stop: CancellationToken,
}

impl Connection {
    fn codec(&self) -> FrameCodec {
        FrameCodec::new(self.framing, self.shared.frame_bytes_max)
    }

    async fn serve(self, stream: TcpStream) {
        // An answer is small and awaited: it must not wait for more to go with it.
        let _ = stream.set_nodelay(true);
        // One that vanished without a word must not keep its place for ever.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let (read, write) = stream.into_split();
        // What it holds is bounded by the shares of the frames in it.
        let (frames, queue) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let writer = answers::answer(&self, FramedWrite::new(write, self.codec()), queue, &ended);
        let reader = async {
            tokio::select! {
                // A frame that waits for its turn must not get it once the connection has ended.
                biased;
                () = ended.cancelled() => {}
                () = self.read_frames(FramedRead::new(read, self.codec()), &frames) => {}
            }
            // Closes the queue: the writer ends once everything is answered.
            drop(frames);
        };
        tokio::join!(reader, writer);
    }

    async fn read_frames(
        &self,
        mut stream: FramedRead<tokio::net::tcp::OwnedReadHalf, FrameCodec>,
        frames: &mpsc::UnboundedSender<Frame>,
    ) {
        let places = Arc::new(Semaphore::new(self.shared.frames_in_flight_max));
        let room = Arc::new(Semaphore::new(ROOM_KIB));
        loop {
            let frame = tokio::select! {
                () = self.stop.cancelled() => return,
                frame = stream.next() => frame,
            };
            let frame = match frame {
                None => return,
                Some(Ok(body)) => {
                    let kib = (body.len() / 1024 + 1).min(ROOM_KIB) as u32;
                    let place = places.clone().acquire_owned().await;
                    let room = room.clone().acquire_many_owned(kib).await;
                    // They are never closed.
                    let (Ok(place), Ok(room)) = (place, room) else { return };
                    let arrival = Box::new(arrival(body));
                    let taken = Taken { arrival, _share: (place, room) };
                    if !self.submit(taken, frames).await {
                        return;
                    }
                    continue;
                }
                Some(Err(FrameError::Io(_))) => return,
                Some(Err(error)) => {
                    let code = match error {
                        FrameError::TooLong { .. } => "body_too_large",
                        _ => "invalid_frame",
                    };
                    let sentence = format!("{error}; the connection is closed").into();
                    Frame::Last(ToProducer::Err { code, sentence })
                }
            };
            let _ = frames.send(frame);
            return;
        }
    }

    /// Submits a frame when it is the reader's turn. False when the writer has gone.
    async fn submit(&self, taken: Taken, frames: &mpsc::UnboundedSender<Frame>) -> bool {
        let session = self.turn.lock().await;
        let arrivals = vec![Arrival::clone(&taken.arrival)];
        let pending = self.shared.committer.submit(&self.destination, arrivals, &session).await;
        // Before the turn is over: whoever has it next finds everything in the queue.
        frames.send(Frame::Submitted(pending, taken)).is_ok()
    }
}

fn arrival(body: Bytes) -> Arrival {
    Arrival::of(Message {
        id: uuid::Uuid::now_v7().to_string(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "application/octet-stream".into(), bytes: body },
        received_ms: server_clock_ms(),
    })
}
