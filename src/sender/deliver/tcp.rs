//! Delivery as frames over TCP connections that are kept open.
//!
//! ```text
//!            ┌───────── idle ◄───────── answered, nothing else unread
//!   open ──► │            │
//!            └─► write ───┴─► await the answer ──► …
//!                  │               │
//!                  └──► closed ◄───┘ on any error, time-out, odd answer, dropped attempt
//! ```
//!
//! During an attempt the connection belongs to the attempt's future: whatever ends it early
//! closes the connection, so that no connection with an unanswered frame is used again.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, time::timeout};
use tokio_util::codec::Framed;

use super::{Deliver, Finality, Verdict};
use crate::{
    domain::{Ack, Destination, Framing, Stage, Stamped, Trouble, TroubleKind},
    wire::{
        FrameCodec, FrameError,
        answer::{ANSWER_BYTES_MAX, FromReceiver},
        http::CONNECT_TIMEOUT,
    },
};

/// An idle connection whose other end vanished is noticed after some probes this far apart.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// With `ack = "none"`, so much of what the receiver says all the same is thrown away before
/// each frame, in reads of [`SCRAP_BYTES`].
const SCRAP_READS_MAX: usize = 16;
const SCRAP_BYTES: usize = 4096;

type Connection = Framed<TcpStream, FrameCodec>;

/// A receiver that speaks frames over TCP.
pub struct Tcp {
    /// `host:port`, looked up for each new connection.
    address: String,
    framing: Framing,
    ack: Ack,
    timeout: Duration,
    /// The last one used is on top, so a lane by itself stays on one connection.
    idle: Mutex<Vec<Connection>>,
    idle_max: usize,
}

/// Why a frame did not go out.
struct WriteFailure {
    error: FrameError,
    /// True when not even a part of the frame has left, so it cannot have been processed.
    is_untouched: bool,
}

impl Tcp {
    /// The receiver of this destination. Nothing is connected yet.
    pub fn new(destination: &Destination) -> Tcp {
        let url = destination.url.strip_prefix("tcp://").unwrap_or(&destination.url);
        let delivery = &destination.delivery;
        Tcp {
            address: url.split(['/', '?', '#']).next().unwrap_or_default().to_owned(),
            framing: delivery.framing,
            ack: delivery.ack,
            timeout: Duration::from_millis(delivery.timeout_ms),
            idle: Mutex::default(),
            idle_max: delivery.lanes_max as usize,
        }
    }

    async fn attempt(&self, body: Bytes) -> Result<Verdict, Trouble> {
        let mut connection = self.send(body).await.map_err(broken)?;
        if self.ack == Ack::None {
            self.keep(connection);
            return Ok(Verdict::Accepted(1));
        }
        let answer = match connection.next().await {
            Some(Ok(frame)) => FromReceiver::parse(&frame)
                .map_err(|error| trouble(TroubleKind::Status, error.to_string()))?,
            Some(Err(FrameError::TooLong { max })) => {
                let reason = format!("the answer is longer than {max} bytes");
                return Err(trouble(TroubleKind::Status, reason));
            }
            Some(Err(error)) => return Err(broken(format!("no answer: {error}"))),
            None => {
                let reason = "the receiver closed the connection without an answer";
                return Err(broken(reason.to_owned()));
            }
        };
        self.keep(connection);
        Ok(match answer {
            FromReceiver::Ok => Verdict::Accepted(1),
            FromReceiver::Retry(retry_after) => {
                let trouble =
                    trouble(TroubleKind::Status, "the receiver answered RETRY".to_owned());
                Verdict::Refused { trouble, retry_after, finality: Finality::Again }
            }
            FromReceiver::Reject(reason) => {
                let trouble = trouble(TroubleKind::Rejected, format!("rejected: {reason}"));
                refused(trouble, Finality::Final)
            }
        })
    }

    /// Writes the frame, on an idle connection if there is one, and returns the connection.
    async fn send(&self, body: Bytes) -> Result<Connection, String> {
        if let Some(mut connection) = self.take_idle() {
            match write(&mut connection, body.clone()).await {
                Ok(()) => return Ok(connection),
                // The receiver closed it just now; it has nothing, so a fresh one is safe.
                Err(failure) if failure.is_untouched => {}
                Err(failure) => return Err(describe(failure)),
            }
        }
        let mut connection = self.open().await?;
        write(&mut connection, body).await.map_err(describe)?;
        Ok(connection)
    }

    async fn open(&self) -> Result<Connection, String> {
        let opening = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.address));
        let stream = match opening.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(format!("no connection: {error}")),
            Err(_) => return Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
        };
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
        prepared.map_err(|error| format!("no connection: {error}"))?;
        Ok(Framed::new(stream, FrameCodec::new(self.framing, ANSWER_BYTES_MAX)))
    }

    /// An idle connection that the receiver has not closed as far as can be seen.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if is_usable(connection.get_ref(), self.ack) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next frame, unless the receiver said more than it was asked:
    /// the next answer could then be taken for another frame's.
    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.read_buffer().is_empty() && idle.len() < self.idle_max {
            idle.push(connection);
        }
    }
}

#[async_trait]
impl Deliver for Tcp {
    /// A frame is one message: the first.
    async fn deliver(&self, messages: &[Arc<Stamped>], _attempt: u32) -> Verdict {
        let Some(message) = messages.first() else {
            let trouble = trouble(TroubleKind::Unsendable, "there is nothing to send".to_owned());
            return refused(trouble, Finality::Again);
        };
        let body = &message.message.body.bytes;
        if self.framing == Framing::Lines && body.contains(&b'\n') {
            let reason = FrameError::ContainsNewline.to_string();
            return refused(trouble(TroubleKind::Unsendable, reason), Finality::Final);
        }
        match timeout(self.timeout, self.attempt(body.clone())).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(trouble)) => refused(trouble, Finality::Again),
            Err(_) => {
                let reason = format!("timed out after {} ms", self.timeout.as_millis());
                refused(trouble(TroubleKind::Timeout, reason), Finality::Again)
            }
        }
    }
}

fn refused(trouble: Trouble, finality: Finality) -> Verdict {
    Verdict::Refused { trouble, retry_after: None, finality }
}

fn trouble(kind: TroubleKind, reason: String) -> Trouble {
    Trouble::new(Stage::Delivery, kind, reason)
}

/// No connection, or one that broke.
fn broken(reason: String) -> Trouble {
    trouble(TroubleKind::Connection, reason)
}

fn describe(failure: WriteFailure) -> String {
    format!("the frame could not be written: {}", failure.error)
}

async fn write(connection: &mut Connection, body: Bytes) -> Result<(), WriteFailure> {
    let fed = connection.feed(body).await;
    fed.map_err(|error| WriteFailure { error, is_untouched: true })?;
    let frame_bytes = connection.write_buffer().len();
    let flushed = connection.flush().await;
    flushed.map_err(|error| {
        let is_untouched = connection.write_buffer().len() == frame_bytes;
        WriteFailure { error, is_untouched }
    })
}

/// False when the receiver has closed the connection, or said something that nobody asked for.
/// Asks the socket itself: what tokio knows of it may be older. Never blocks.
fn is_usable(stream: &TcpStream, ack: Ack) -> bool {
    let socket = SockRef::from(stream);
    let mut scrap = [0; SCRAP_BYTES];
    for _ in 0..SCRAP_READS_MAX {
        match (&*socket).read(&mut scrap) {
            Ok(1..) if ack == Ack::None => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_frame_of_which_nothing_left_goes_out_on_a_fresh_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("tcp://{}/ignored", listener.local_addr().unwrap());
        let tcp = Tcp::new(&Destination::new("erp".parse().unwrap(), url));
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
            let first = tcp.attempt(Bytes::from_static(b"one")).await;
            // Writing fails from now on, while nothing can be read: as after a late RST.
            let idle = tcp.take_idle().unwrap();
            SockRef::from(idle.get_ref()).shutdown(Shutdown::Write).unwrap();
            tcp.keep(idle);
            (first, tcp.attempt(Bytes::from_static(b"two")).await)
        };
        let (served, verdicts) = tokio::join!(serve, deliver);
        assert_eq!(verdicts, (Ok(Verdict::Accepted(1)), Ok(Verdict::Accepted(1))));
        assert_eq!(
            served.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>(),
            ["one\n", "two\n"]
        );
    }
}
