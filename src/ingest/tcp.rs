//! TCP ingest: one listener feeds one destination; each frame is answered in order, after Redis
//! has it.

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use tokio_util::{
    codec::{FramedRead, FramedWrite},
    sync::CancellationToken,
    task::TaskTracker,
};

use super::{
    Committer, Refusal, Session,
    commit::{Outcome, Pending},
    now_ms,
};
use crate::{
    config,
    domain::{Arrival, Body, DestinationName, Framing, Message},
    wire::{FrameCodec, FrameError, answer::ToProducer},
};

/// A producer that does not read its answers for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// After so long without a word, a producer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

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
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection = Connection {
            destination: settings.destination.clone(),
            framing: settings.framing,
            shared: shared.clone(),
        };
        let stop = stop.clone();
        tracker.spawn(async move {
            let _place = place;
            connection.serve(stream, stop).await;
        });
    }
}

/// What a frame became, on its way to being answered.
enum Frame {
    Submitted(Pending),
    /// The connection ends with this answer.
    Last(ToProducer),
}

struct Connection {
    destination: DestinationName,
    framing: Framing,
    shared: Shared,
}

impl Connection {
    fn codec(&self) -> FrameCodec {
        FrameCodec::new(self.framing, self.shared.frame_bytes_max)
    }

    async fn serve(self, stream: TcpStream, stop: CancellationToken) {
        // An answer is small and awaited: it must not wait for more to go with it.
        let _ = stream.set_nodelay(true);
        // One that vanished without a word must not keep its place for ever.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let (read, write) = stream.into_split();
        let (frames, answers) = mpsc::channel(self.shared.frames_in_flight_max);
        let ended = CancellationToken::new();
        let writer = answer_frames(FramedWrite::new(write, self.codec()), answers, &ended);
        let reader = async {
            tokio::select! {
                () = ended.cancelled() => {}
                () = self.read_frames(FramedRead::new(read, self.codec()), &frames, &stop) => {}
            }
            // Closes the queue: the writer ends once everything is answered.
            drop(frames);
        };
        tokio::join!(reader, writer);
    }

    async fn read_frames(
        &self,
        mut stream: FramedRead<tokio::net::tcp::OwnedReadHalf, FrameCodec>,
        frames: &mpsc::Sender<Frame>,
        stop: &CancellationToken,
    ) {
        let session = Session::default();
        loop {
            let frame = tokio::select! {
                () = stop.cancelled() => return,
                frame = stream.next() => frame,
            };
            let frame = match frame {
                None => return,
                Some(Ok(body)) => {
                    let arrivals = vec![arrival(body)];
                    let submitted =
                        self.shared.committer.submit(&self.destination, arrivals, &session).await;
                    Frame::Submitted(submitted)
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
            let is_last = matches!(frame, Frame::Last(_));
            if frames.send(frame).await.is_err() || is_last {
                return;
            }
        }
    }
}

fn arrival(body: Bytes) -> Arrival {
    Arrival::of(Message {
        id: uuid::Uuid::now_v7().to_string(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "application/octet-stream".into(), bytes: body },
        received_ms: now_ms(),
    })
}

/// Writes the answers in order. After a temporary failure nothing more is taken: the connection
/// ends, and `ended` says so.
async fn answer_frames(
    mut stream: FramedWrite<tokio::net::tcp::OwnedWriteHalf, FrameCodec>,
    mut frames: mpsc::Receiver<Frame>,
    ended: &CancellationToken,
) {
    let mut batch = VecDeque::new();
    let mut open = true;
    while open {
        let mut taken = Vec::new();
        if frames.recv_many(&mut taken, 256).await == 0 {
            break;
        }
        batch.extend(taken);
        while let Some(frame) = batch.pop_front() {
            let (answer, is_last) = match frame {
                Frame::Last(answer) => (answer, true),
                Frame::Submitted(pending) => {
                    // What is answered already is not held back for what is not.
                    if pending.is_waiting() && !written(stream.flush()).await {
                        open = false;
                        break;
                    }
                    let outcome = pending.outcomes().await.pop();
                    answer_to(outcome.unwrap_or(Err(Refusal::Draining)))
                }
            };
            let text = Bytes::from(answer.to_string());
            if !written(stream.feed(text)).await || is_last {
                open = false;
                break;
            }
        }
        open &= written(stream.flush()).await;
    }
    // What was submitted after the failure is answered too, as far as it goes: it was aborted.
    ended.cancel();
    frames.close();
    loop {
        let next = match batch.pop_front() {
            Some(frame) => Some(frame),
            None => frames.recv().await,
        };
        let Some(frame) = next else { break };
        if let Frame::Submitted(pending) = frame {
            let outcome = pending.outcomes().await.pop();
            let (answer, _) = answer_to(outcome.unwrap_or(Err(Refusal::Draining)));
            if !written(stream.feed(Bytes::from(answer.to_string()))).await {
                break;
            }
        }
    }
    written(stream.close()).await;
}

/// True if it was written, in time.
async fn written(writing: impl Future<Output = Result<(), FrameError>>) -> bool {
    matches!(tokio::time::timeout(WRITE_PATIENCE, writing).await, Ok(Ok(())))
}

/// The answer, and whether the connection ends with it.
fn answer_to(outcome: Outcome) -> (ToProducer, bool) {
    match outcome {
        Ok(receipt) => (ToProducer::Ok(receipt.place.sequence), false),
        Err(refusal) => {
            let (_, code) = refusal.code();
            let answer = ToProducer::Err { code, sentence: refusal.to_string().into() };
            (answer, refusal.is_temporary())
        }
    }
}
