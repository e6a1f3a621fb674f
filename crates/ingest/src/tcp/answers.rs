//! Writes the answers of a TCP connection, and keeps its frames while the backlog is full.

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::SinkExt;
use tokio::sync::mpsc;
use tokio_util::{codec::FramedWrite, sync::CancellationToken};

use super::{
    super::{Outcome, Refusal, Session, commit::CopyResult},
    Connection, FramePermits, Read, Taken, Writer as WriteHalf,
};
use domain::Arrival;
use formats::{FrameCodec, FrameError, tcp_answer::ToProducer};
use http_server::socket::Socket;

/// A producer that does not read its answers for this long counts as gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause before refused frames are submitted again.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Writes the answers in order. After a temporary failure, ends the connection and cancels `ended`. If the backlog is
/// full, ingest is paused or memory is high, waits instead.
pub(super) async fn answer(
    connection: &Connection,
    stream: FramedWrite<WriteHalf, FrameCodec>,
    socket: Socket,
    queue: mpsc::UnboundedReceiver<Read>,
    ended: &CancellationToken,
) {
    let mut writer = Writer { connection, stream, socket, queue, kept: VecDeque::new() };
    while let Some(read) = writer.queue.recv().await {
        if !writer.answer_from(read).await {
            break;
        }
    }
    // Frames that were submitted after the failure were aborted; they get answers too.
    ended.cancel();
    writer.queue.close();
    writer.answer_the_rest().await;
    written(writer.stream.close()).await;
}

struct Writer<'c> {
    connection: &'c Connection,
    stream: FramedWrite<WriteHalf, FrameCodec>,
    socket: Socket,
    queue: mpsc::UnboundedReceiver<Read>,
    /// The frames to submit again, in order, and the outcomes of the frames between and behind them.
    kept: VecDeque<Kept>,
}

enum Kept {
    /// The frame is certainly not stored: submit it again.
    Again {
        arrival: Box<Arrival>,
        _share: Arc<FramePermits>,
    },
    Settled(Outcome),
    /// The answer to a frame that is not a message.
    Answer(ToProducer),
    /// The last answer of the connection.
    Last(ToProducer),
}

impl Writer<'_> {
    /// Answers this read, then the rest of the queue. False when the connection ends.
    async fn answer_from(&mut self, first: Read) -> bool {
        let mut next = Some(first);
        while let Some(read) = next {
            match read {
                Read::Answer(answer) => {
                    if !self.write(answer).await {
                        return false;
                    }
                }
                Read::Last(answer) => {
                    self.write(answer).await;
                    return false;
                }
                Read::Submitted(pending, taken) => {
                    // Flushes, so that answered frames do not wait for the next outcomes.
                    if pending.is_waiting() && !written(self.stream.flush()).await {
                        return false;
                    }
                    if !self.answer_chunk(pending.outcomes().await, taken).await {
                        return false;
                    }
                }
            }
            next = self.queue.try_recv().ok();
        }
        written(self.stream.flush()).await
    }

    /// Answers frames of one chunk. False when the connection ends.
    async fn answer_chunk(&mut self, outcomes: Vec<Outcome>, taken: Taken) -> bool {
        let full = outcomes
            .iter()
            .position(|outcome| outcome.as_ref().err().is_some_and(Refusal::is_wait));
        let mut outcomes = outcomes.into_iter();
        for outcome in outcomes.by_ref().take(full.unwrap_or(usize::MAX)) {
            let (answer, is_last) = answer_to(outcome);
            if !self.write(answer).await || is_last {
                // The frames behind this one in the chunk were aborted; they get answers too.
                let rest = outcomes.map(Kept::Settled);
                self.kept.extend(rest.filter(|_| is_last));
                return false;
            }
        }
        match full {
            Some(at) => self.wait_for_room(kept(outcomes, &taken, at).collect()).await,
            None => true,
        }
    }

    /// Keeps all frames that were read, starting with `first`, and submits them again until all are stored and
    /// answered. The reader stops meanwhile, so that backpressure reaches the producer. False when the connection ends.
    async fn wait_for_room(&mut self, first: Vec<Kept>) -> bool {
        let connection = self.connection;
        let mut session = connection.turn.lock().await;
        let _paused = telemetry::TcpPaused::begin();
        tracing::debug!(destination = %connection.destination, "destination refuses for now: reading stops");
        self.kept.extend(first);
        self.keep_the_queue().await;
        *session = Session::default();
        let goes_on = self.submit_until_taken().await;
        if !goes_on {
            // The reader may hold one more frame, which must not overtake the refused frames.
            session.fail();
        }
        goes_on
    }

    /// Submits the kept frames until all are stored and answered. False when the connection ends.
    async fn submit_until_taken(&mut self) -> bool {
        let mut pause = PAUSE_MIN;
        // Starts with one frame and then increases, so that a full destination does not get all frames each time.
        let mut count = 0;
        while !self.kept.is_empty() {
            if !written(self.stream.flush()).await {
                return false;
            }
            if count == 0 {
                if !self.pause(pause).await {
                    return false;
                }
                (pause, count) = ((pause * 2).min(PAUSE_MAX), 1);
            }
            let submitted = self.submit_again(count).await;
            let Some(answered) = self.answer_kept().await else { return false };
            if answered > 0 {
                pause = PAUSE_MIN;
            }
            count = if answered >= submitted { count.saturating_mul(2) } else { 0 };
        }
        written(self.stream.flush()).await
    }

    /// Empties the queue. Frames behind a refused frame were refused too, and are kept. Frames with another outcome are
    /// kept with it, and answered in their turn.
    async fn keep_the_queue(&mut self) {
        while let Ok(read) = self.queue.try_recv() {
            match read {
                Read::Answer(answer) => self.kept.push_back(Kept::Answer(answer)),
                Read::Last(answer) => self.kept.push_back(Kept::Last(answer)),
                Read::Submitted(pending, taken) => {
                    self.kept.extend(kept(pending.outcomes().await, &taken, 0));
                }
            }
        }
    }

    /// Waits before the next attempt. False when the process stops or the producer is gone.
    async fn pause(&mut self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.connection.stop.cancelled() => {
                self.kept.pop_front();
                self.kept.push_front(Kept::Settled(Err(Refusal::Draining)));
                return false;
            }
            () = tokio::time::sleep(pause) => {}
        }
        // A reset connection is detected at once. A connection closed in one direction may still
        // read answers.
        !self.socket.is_reset()
    }

    /// Submits the first `count` kept frames, in order. The first of them must be a frame to submit again. Returns how
    /// many were submitted.
    async fn submit_again(&mut self, count: usize) -> usize {
        let again = |kept: &Kept| match kept {
            Kept::Again { arrival, .. } => Some(Ok(Arrival::clone(arrival))),
            _ => None,
        };
        let copies: Vec<CopyResult> = self.kept.iter().take(count).map_while(again).collect();
        let submitted = copies.len();
        let entry = self.connection.shared.committer.find(&self.connection.destination).await;
        let pending = self.connection.commit(&entry, copies, &Session::default()).await;
        let outcomes = pending.outcomes().await;
        for (held, outcome) in self.kept.iter_mut().zip(outcomes) {
            if !is_to_come_again(&outcome) {
                *held = Kept::Settled(outcome);
            }
        }
        submitted
    }

    /// Answers the kept frames up to the first frame to submit again. Returns how many, or `None` when the connection
    /// ends.
    async fn answer_kept(&mut self) -> Option<usize> {
        let mut answered = 0;
        while let Some(kept) = self.kept.pop_front() {
            let (answer, is_last) = match kept {
                Kept::Again { .. } => {
                    self.kept.push_front(kept);
                    break;
                }
                Kept::Settled(outcome) => answer_to(outcome),
                Kept::Answer(answer) => (answer, false),
                Kept::Last(answer) => (answer, true),
            };
            if !self.write(answer).await || is_last {
                return None;
            }
            answered += 1;
        }
        Some(answered)
    }

    async fn answer_the_rest(&mut self) {
        loop {
            let answers = match self.kept.pop_front() {
                Some(Kept::Again { .. }) => vec![answer_to(Err(Refusal::Aborted)).0],
                Some(Kept::Settled(outcome)) => vec![answer_to(outcome).0],
                Some(Kept::Answer(answer)) => vec![answer],
                Some(Kept::Last(_)) => continue,
                None => match self.queue.recv().await {
                    Some(Read::Submitted(pending, _)) => {
                        let outcomes = pending.outcomes().await;
                        outcomes.into_iter().map(|outcome| answer_to(outcome).0).collect()
                    }
                    Some(Read::Answer(answer)) => vec![answer],
                    Some(Read::Last(_)) => continue,
                    None => return,
                },
            };
            for answer in answers {
                if !self.write(answer).await {
                    return;
                }
            }
        }
    }

    async fn write(&mut self, answer: ToProducer) -> bool {
        written(self.stream.feed(Bytes::from(answer.to_string()))).await
    }
}

/// Pairs the frames of a chunk, from index `from` on, with their outcomes: each is to be answered or submitted again.
fn kept(
    outcomes: impl IntoIterator<Item = Outcome>,
    taken: &Taken,
    from: usize,
) -> impl Iterator<Item = Kept> {
    outcomes.into_iter().zip(&taken.copies[from..]).map(|(outcome, copy)| match copy {
        Ok(arrival) if is_to_come_again(&outcome) => {
            Kept::Again { arrival: Box::new(arrival.clone()), _share: taken.share.clone() }
        }
        _ => Kept::Settled(outcome),
    })
}

/// True if the frame was refused for now, or was behind such a frame.
fn is_to_come_again(outcome: &Outcome) -> bool {
    outcome.as_ref().err().is_some_and(|refusal| refusal.is_wait() || *refusal == Refusal::Aborted)
}

/// True if the write completed in time.
async fn written(writing: impl Future<Output = Result<(), FrameError>>) -> bool {
    matches!(tokio::time::timeout(WRITE_PATIENCE, writing).await, Ok(Ok(())))
}

/// The answer to a frame, and whether it is the last answer of the connection.
fn answer_to(outcome: Outcome) -> (ToProducer, bool) {
    match outcome {
        Ok(receipt) => (ToProducer::Ok(receipt.position.sequence), false),
        Err(refusal) => {
            let answer =
                ToProducer::Err { code: refusal.code(), sentence: refusal.to_string().into() };
            (answer, refusal.is_temporary())
        }
    }
}
