//! The receiver over TCP. Answers frames in order, with one write for all frames that arrived together.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use domain::Framing;
use formats::{FrameCodec, FrameError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::codec::{Decoder, Encoder};

use super::Tally;
use crate::plan::numbered;

/// The longest frame, in bytes.
const FRAME_BYTES_MAX: usize = 2 << 20;
/// The most bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Accepts connections while polled.
pub async fn serve(listener: TcpListener, framing: Framing, tally: Arc<Tally>) {
    // Owns the connections, so that they end with the listener.
    let mut connections = JoinSet::new();
    loop {
        // `accept` fails if the connection is already gone. The peer will notice that.
        if let Ok((stream, _)) = listener.accept().await {
            let tally = tally.clone();
            connections.spawn(async move {
                // A connection ends when the sender ends. Messages that were not accepted come again.
                let _ = accept(stream, framing, &tally).await;
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn accept(mut stream: TcpStream, framing: Framing, tally: &Tally) -> Result<(), FrameError> {
    stream.set_nodelay(true)?;
    let mut codec = FrameCodec::new(framing, FRAME_BYTES_MAX);
    let (mut read, mut answers) = (BytesMut::with_capacity(READ_BYTES), BytesMut::new());
    loop {
        read.reserve(READ_BYTES / 4);
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        let at = tally.now();
        while let Some(frame) = codec.decode(&mut read)? {
            tally.arrives(numbered(&frame), at);
            codec.encode(Bytes::from_static(b"OK"), &mut answers)?;
        }
        stream.write_all_buf(&mut answers).await?;
    }
}
