//! Delivery as frames over TCP connections that stay open between deliveries.
//!
//! ```text
//!            ┌───────── idle ◄───────── answered, nothing else unread
//!   open ──► │            │
//!            └─► write ───┴─► await the answer ──► …
//!                  │               │
//!                  └──► closed ◄───┘ on any error, time-out, odd answer, dropped attempt
//! ```
//!
//! During an attempt the connection belongs to the attempt's future. If the attempt ends early,
//! the connection closes, so that no connection with an unanswered frame is used again.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::codec::Framed;

use super::{Deliver, Finality, Verdict};
use domain::{
    Ack, AttemptError, Destination, DestinationName, Envelope, ErrorKind, Framing, Stage, Stamped,
};
use formats::{
    FrameCodec, FrameError, envelope,
    tcp_answer::{ANSWER_BYTES_MAX, FromReceiver},
};
use outbound::{
    http_client::{CONNECT_TIMEOUT, Clients, Idle},
    outgoing::OutgoingError,
    receiver_stream::{ReceiverStream, is_usable, tcp_of},
};

/// TCP probes an idle connection at this interval, to detect that the receiver has vanished.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The longest wait on a new connection for text that a receiver sends before any frame.
const GREETING_MAX: Duration = Duration::from_millis(200);

type Connection = Framed<ReceiverStream, FrameCodec>;

/// A receiver that speaks frames over TCP.
pub struct Tcp {
    destination: DestinationName,
    /// `tcp://host:port` or `tls://host:port`. The host is looked up for each new connection.
    url: String,
    clients: Clients,
    framing: Framing,
    envelope: Envelope,
    json_depth_max: usize,
    ack: Ack,
    timeout: Duration,
    idle: Arc<IdleConnections>,
    /// With `ack = "none"`, a receiver may read frames of two connections in another order than they were
    /// written. So all lanes take turns on one connection.
    turn: tokio::sync::Mutex<()>,
    idle_max: usize,
    /// True once a new connection was silent at first. Later connections then do not wait for a greeting.
    waits_for_frames: AtomicBool,
}

/// Idle connections with their generations. The last one used is on top, so a single lane stays on one connection.
#[derive(Default)]
struct IdleConnections(Mutex<Vec<(u64, Connection)>>);

impl Idle for IdleConnections {
    fn close(&self) {
        self.0.lock().clear();
    }
}

/// The progress of an attempt, and the deadline of the next answer: one time-out after the
/// beginning or the previous answer.
struct Progress {
    accepted: usize,
    /// The generation of its connection.
    generation: u64,
    deadline: Instant,
}

impl Progress {
    fn begin(timeout: Duration) -> Progress {
        Progress { accepted: 0, generation: 0, deadline: Instant::now() + timeout }
    }

    fn accepted_one(&mut self, timeout: Duration) {
        self.accepted += 1;
        self.deadline = Instant::now() + timeout;
    }
}

/// The reason why an attempt ended before all its frames were accepted.
struct Stop {
    error: AttemptError,
    retry_after: Option<Duration>,
    finality: Finality,
    /// True if no part of a frame was written, so the receiver has processed nothing.
    is_untouched: bool,
}

impl Stop {
    fn again(error: AttemptError) -> Stop {
        Stop { error, retry_after: None, finality: Finality::Retryable, is_untouched: false }
    }

    fn for_good(error: AttemptError) -> Stop {
        Stop { finality: Finality::Permanent, ..Stop::again(error) }
    }

    /// There is no connection, or the connection broke.
    fn broken(reason: String) -> Stop {
        Stop::again(error(ErrorKind::Connection, reason))
    }

    fn of(refusal: FromReceiver) -> Stop {
        match refusal {
            FromReceiver::Reject(reason) => {
                Stop::for_good(error(ErrorKind::Rejected, format!("rejected: {reason}")))
            }
            FromReceiver::Retry(retry_after) => {
                let reason = "the receiver answered RETRY".to_owned();
                Stop { retry_after, ..Stop::again(error(ErrorKind::Status, reason)) }
            }
            FromReceiver::Ok => Stop::broken("an OK is no refusal".to_owned()),
        }
    }
}

/// Frames to write. While answers arrive, it keeps writing the bytes that the socket had no room
/// for, so that neither side waits for the other to read.
struct Outbox {
    frames_bytes: usize,
    is_empty: bool,
}

type Answer = Option<Result<Bytes, FrameError>>;

impl Outbox {
    /// The next answer.
    async fn answer(&mut self, connection: &mut Connection) -> Result<Answer, Stop> {
        poll_fn(|context| {
            if !self.is_empty {
                match connection.poll_flush_unpin(context) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(())) => self.is_empty = true,
                    Poll::Ready(Err(error)) => {
                        let is_untouched = connection.write_buffer().len() == self.frames_bytes;
                        return Poll::Ready(Err(Stop { is_untouched, ..unwritten(&error) }));
                    }
                }
            }
            connection.poll_next_unpin(context).map(Ok)
        })
        .await
    }
}

/// Parses the receiver's answer. An error if it is not a valid answer.
fn understood(answer: Answer) -> Result<FromReceiver, Stop> {
    let odd = |reason: String| Stop::again(error(ErrorKind::Status, reason));
    match answer {
        Some(Ok(frame)) => FromReceiver::parse(&frame).map_err(|error| odd(error.to_string())),
        Some(Err(FrameError::TooLong { max })) => {
            Err(odd(format!("the answer is longer than {max} bytes")))
        }
        Some(Err(error)) => Err(Stop::broken(format!("no answer: {error}"))),
        None => {
            let reason = "the receiver closed the connection without an answer";
            Err(Stop::broken(reason.to_owned()))
        }
    }
}

impl Tcp {
    /// The receiver of this destination. Nothing is connected yet.
    pub fn new(destination: &Destination, clients: Clients, json_depth_max: usize) -> Tcp {
        let delivery = &destination.delivery;
        let idle = Arc::<IdleConnections>::default();
        let as_idle: Arc<dyn Idle> = idle.clone();
        clients.note_idle(Arc::downgrade(&as_idle));
        Tcp {
            destination: destination.name.clone(),
            url: destination.url.clone().unwrap_or_default(),
            clients,
            framing: delivery.framing,
            envelope: delivery.envelope,
            json_depth_max,
            ack: delivery.ack,
            timeout: Duration::from_millis(delivery.timeout_ms),
            idle,
            turn: tokio::sync::Mutex::default(),
            idle_max: delivery.lanes_max as usize,
            waits_for_frames: AtomicBool::new(false),
        }
    }

    /// Sends the frames, and reads the answers in order as they arrive. `progress` counts the accepted
    /// frames.
    async fn attempt(&self, bodies: &[Bytes], progress: &mut Progress) -> Result<(), Stop> {
        let _turn = match self.ack {
            Ack::Line => None,
            Ack::None => Some(self.turn.lock().await),
        };
        let place = self.clients.place(&self.destination, &self.url).await;
        let _place = place.map_err(|error| unconnected(&error))?;
        // The time limit starts now: the waits above do not count.
        progress.deadline = Instant::now() + self.timeout;
        progress.generation = self.clients.generation();
        if let Some(connection) = self.take_idle(progress.generation).await {
            match self.exchange(connection, bodies, progress).await {
                // The receiver has just closed this connection, and got nothing. Trying a new connection is safe.
                Err(stop) if stop.is_untouched => {}
                result => return result,
            }
        }
        let opened = timeout_at(progress.deadline, self.open()).await;
        let connection = opened.map_err(|_| self.timed_out())??;
        self.exchange(connection, bodies, progress).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        bodies: &[Bytes],
        progress: &mut Progress,
    ) -> Result<(), Stop> {
        for body in bodies {
            let fed = connection.feed(body.clone()).await;
            fed.map_err(|error| Stop { is_untouched: true, ..unwritten(&error) })?;
        }
        if self.ack == Ack::None {
            let flushed = timeout_at(progress.deadline, connection.flush()).await;
            flushed.map_err(|_| self.timed_out())?.map_err(|error| unwritten(&error))?;
            progress.accepted = bodies.len();
            self.keep(connection, progress.generation);
            return Ok(());
        }
        let mut outbox = Outbox { frames_bytes: connection.write_buffer().len(), is_empty: false };
        while progress.accepted < bodies.len() {
            let answer = timeout_at(progress.deadline, outbox.answer(&mut connection)).await;
            match understood(answer.map_err(|_| self.timed_out())??)? {
                FromReceiver::Ok => progress.accepted_one(self.timeout),
                refusal => {
                    // Frames in flight behind this one must not get their answers in the next attempt.
                    if progress.accepted + 1 == bodies.len() {
                        self.keep(connection, progress.generation);
                    }
                    return Err(Stop::of(refusal));
                }
            }
        }
        self.keep(connection, progress.generation);
        Ok(())
    }

    fn timed_out(&self) -> Stop {
        let reason = format!("timed out after {} ms", self.timeout.as_millis());
        Stop::again(error(ErrorKind::Timeout, reason))
    }

    async fn open(&self) -> Result<Connection, Stop> {
        let opening = timeout(CONNECT_TIMEOUT, self.clients.connect(&self.destination, &self.url));
        let stream = match opening.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(unconnected(&error)),
            Err(_) => {
                return Err(Stop::broken(format!("no connection within {CONNECT_TIMEOUT:?}")));
            }
        };
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let socket = tcp_of(&stream);
        let prepared = socket
            .set_nodelay(true)
            .and_then(|()| SockRef::from(socket).set_tcp_keepalive(&keepalive));
        prepared.map_err(|error| Stop::broken(format!("no connection: {error}")))?;
        let mut connection = Framed::new(stream, FrameCodec::new(self.framing, ANSWER_BYTES_MAX));
        // Write all frames of an attempt together. The caller limits their number.
        connection.set_backpressure_boundary(usize::MAX);
        if self.ack == Ack::Line {
            self.refuse_greeting(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Refuses a receiver that sends text before any frame, such as `OK MPD 0.23`: Reseq would
    /// take it for the answer to the first frame.
    async fn refuse_greeting(&self, connection: &mut Connection) -> Result<(), Stop> {
        let is_known = self.waits_for_frames.load(Relaxed);
        let wait = if is_known { Duration::ZERO } else { GREETING_MAX.min(self.timeout / 4) };
        let heard = timeout(wait, connection.next()).await;
        let is_silent = heard.is_err() && connection.read_buffer().is_empty();
        self.waits_for_frames.store(is_silent, Relaxed);
        match heard {
            Err(_) if is_silent => Ok(()),
            Ok(end @ (None | Some(Err(_)))) => understood(end).map(drop),
            Ok(Some(Ok(_))) | Err(_) => {
                let reason = "the receiver sent something before any frame, which is no answer";
                Err(Stop::again(error(ErrorKind::Status, reason.to_owned())))
            }
        }
    }

    /// An idle connection of this generation that the receiver has not visibly closed.
    async fn take_idle(&self, now: u64) -> Option<Connection> {
        loop {
            let idle = self.idle.0.lock().pop();
            let (generation, mut connection) = idle?;
            if generation == now && is_usable(connection.get_mut(), self.ack).await {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next frame, unless it has unread input, which could look like
    /// the answer to that frame.
    fn keep(&self, connection: Connection, generation: u64) {
        let may_be_idle = self.clients.keeps_idle(generation);
        let mut idle = self.idle.0.lock();
        if may_be_idle && connection.read_buffer().is_empty() && idle.len() < self.idle_max {
            idle.push((generation, connection));
        }
    }
}

#[async_trait]
impl Deliver for Tcp {
    /// Sends one frame for each message. All frames of one call are in flight together.
    async fn deliver(&self, messages: &[Arc<Stamped>], _attempt: u32) -> Verdict {
        let frames = messages.iter().map(|message| match self.envelope {
            Envelope::None => message.message.body.bytes.clone(),
            Envelope::Json => envelope::frame(message, self.json_depth_max),
        });
        let fits = |frame: &Bytes| self.framing == Framing::Length || !frame.contains(&b'\n');
        let frames: Vec<Bytes> = frames.take_while(fits).collect();
        let mut progress = Progress::begin(self.timeout);
        let result = match frames.is_empty() {
            true => {
                let reason = FrameError::ContainsNewline.to_string();
                Err(Stop::for_good(error(ErrorKind::Unsendable, reason)))
            }
            false => self.attempt(&frames, &mut progress).await,
        };
        let accepted = progress.accepted;
        match result {
            Ok(()) => Verdict::Accepted(accepted),
            Err(Stop { error, retry_after, finality, .. }) => {
                Verdict::Refused { accepted, error, retry_after, finality }
            }
        }
    }
}

fn error(kind: ErrorKind, reason: String) -> AttemptError {
    AttemptError::new(Stage::Delivery, kind, reason)
}

fn unconnected(error: &OutgoingError) -> Stop {
    let is_refused = matches!(error, OutgoingError::Refused(_));
    let stop = Stop::broken(format!("no connection: {}", tls::explained(error.to_string())));
    let finality = if is_refused { Finality::RetryableThenHalts } else { stop.finality };
    Stop { finality, ..stop }
}

fn unwritten(error: &FrameError) -> Stop {
    Stop::broken(format!("the frame could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
        net::TcpListener,
    };

    use super::*;
    use outbound::outgoing::Outgoing;
    use tls::Connector;

    #[tokio::test]
    async fn a_frame_of_which_nothing_left_goes_out_on_a_fresh_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("tcp://{}/ignored", listener.local_addr().unwrap());
        let outgoing = Outgoing::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let clients = Clients::new(outgoing, Connector::of_system().unwrap()).unwrap();
        let tcp = Tcp::new(&Destination::new("erp".parse().unwrap(), url), clients, 128);
        let serve = async {
            let mut served = Vec::new();
            for _ in 0..2 {
                let mut stream = BufStream::new(listener.accept().await.unwrap().0);
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
                stream.write_all(b"OK\n").await.unwrap();
                stream.flush().await.unwrap();
                served.push((stream, line));
            }
            served
        };
        let deliver = async {
            let mut progress = Progress::begin(tcp.timeout);
            let first = tcp.attempt(&[Bytes::from_static(b"one")], &mut progress).await;
            // From now on, writes fail and there is nothing to read, as after a late RST.
            let idle = tcp.take_idle(0).await.unwrap();
            SockRef::from(tcp_of(idle.get_ref())).shutdown(Shutdown::Write).unwrap();
            tcp.keep(idle, 0);
            progress = Progress::begin(tcp.timeout);
            let second = tcp.attempt(&[Bytes::from_static(b"two")], &mut progress).await;
            (first.is_ok(), second.is_ok(), progress.accepted)
        };
        let (served, verdicts) = tokio::join!(serve, deliver);
        assert_eq!(verdicts, (true, true, 1));
        assert_eq!(
            served.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>(),
            ["one\n", "two\n"]
        );
    }
}
