//! A producer over TCP: writes many frames at once, reads answers as they arrive, and has at most
//! a window of frames without an answer.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Buf, Bytes, BytesMut};
use domain::Envelope;
use formats::{FrameCodec, tcp_answer::ANSWER_BYTES_MAX};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::codec::{Decoder, Encoder};

use super::{ANSWER_MAX, Load, Pace, Relaxed, Sent};

/// While this many bytes wait to be written, no more frames are encoded.
const WRITE_BYTES: usize = 256 << 10;
/// The size of the buffer for reading.
const READ_BYTES: usize = 64 << 10;

struct Connection<'a> {
    load: &'a Load,
    stream: TcpStream,
    codec: FrameCodec,
    output: BytesMut,
    input: BytesMut,
    pace: Pace,
    sent: Sent,
    body: Vec<u8>,
}

/// Sends the messages of one stream.
pub async fn send(load: &Load, stream: u64, pace: Pace) -> anyhow::Result<Sent> {
    let address = load.listeners.tcp[stream as usize];
    let stream = TcpStream::connect(address).await.context("connecting to ingest over TCP")?;
    stream.set_nodelay(true)?;
    let mut connection = Connection {
        load,
        stream,
        codec: FrameCodec::new(load.framing, ANSWER_BYTES_MAX),
        output: BytesMut::with_capacity(WRITE_BYTES),
        input: BytesMut::with_capacity(READ_BYTES),
        pace,
        sent: Sent::default(),
        body: Vec::new(),
    };
    if let Some(token) = &load.listeners.token {
        timeout(ANSWER_MAX, connection.authenticate(token)).await??;
    }
    connection.run().await?;
    Ok(connection.sent)
}

impl Connection<'_> {
    /// Sends the token in the first frame.
    async fn authenticate(&mut self, token: &str) -> anyhow::Result<()> {
        self.codec.encode(format!("AUTH {token}").into(), &mut self.output)?;
        self.stream.write_all_buf(&mut self.output).await?;
        loop {
            match self.codec.decode(&mut self.input)? {
                Some(answer) if &answer[..] == b"OK" => return Ok(()),
                Some(answer) => bail!("ingest answered a token with {answer:?}"),
                None if self.stream.read_buf(&mut self.input).await? == 0 => {
                    bail!("ingest closed the TCP connection")
                }
                None => {}
            }
        }
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            self.fill()?;
            let wait = self.pace.wait(self.load.tally.now(), self.load);
            if wait.is_none() && self.unanswered() == 0 {
                return Ok(());
            }
            let is_full = self.unanswered() >= self.load.window || self.output.len() >= WRITE_BYTES;
            let interest = match self.output.is_empty() {
                true => Interest::READABLE,
                false => Interest::READABLE | Interest::WRITABLE,
            };
            let limit = if self.unanswered() == 0 { Duration::MAX } else { ANSWER_MAX };
            tokio::select! {
                ready = timeout(limit, self.stream.ready(interest)) => {
                    let ready = ready.context("ingest does not answer over TCP")??;
                    if ready.is_writable() {
                        self.write()?;
                    }
                    if ready.is_readable() {
                        self.read()?;
                    }
                }
                () = sleep(wait.unwrap_or_default()), if wait.is_some() && !is_full => {}
            }
        }
    }

    fn unanswered(&self) -> usize {
        self.sent.at.len() - self.sent.sequences.len()
    }

    /// Encodes the due messages as frames.
    fn fill(&mut self) -> anyhow::Result<()> {
        while self.unanswered() < self.load.window && self.output.len() < WRITE_BYTES {
            let now = self.load.tally.now();
            let Some(number) = self.pace.take(now, self.load, &mut self.sent) else { break };
            self.body.clear();
            match self.load.envelope {
                Envelope::None => self.load.plan.write_body(number, &mut self.body),
                Envelope::Json => self.load.write_item(number, "", &mut self.body),
            }
            self.codec.encode(Bytes::copy_from_slice(&self.body), &mut self.output)?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        match self.stream.try_write(&self.output) {
            Ok(written) => self.output.advance(written),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("sending over TCP"),
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.input.reserve(READ_BYTES);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => bail!("ingest closed the TCP connection"),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("reading answers over TCP"),
        }
        let before = self.sent.sequences.len();
        while let Some(answer) = self.codec.decode(&mut self.input)? {
            let text = std::str::from_utf8(&answer).unwrap_or_default();
            let Some(Ok(sequence)) = text.strip_prefix("OK ").map(str::parse) else {
                bail!("ingest answered a frame with {text:?}");
            };
            self.sent.sequences.push(sequence);
        }
        let answered = self.sent.sequences.len() - before;
        self.load.accepted.fetch_add(answered as u64, Relaxed);
        Ok(())
    }
}
