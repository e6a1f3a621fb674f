//! TCP framing: splits and joins frames.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{
    AnyDelimiterCodec, AnyDelimiterCodecError, Decoder, Encoder, LengthDelimitedCodec,
};

use domain::Framing;

#[cfg(test)]
mod tests;

/// The bytes of the length before a frame of [`Framing::Length`].
const HEAD_BYTES: usize = 4;
/// The longest frame that a head of [`HEAD_BYTES`] bytes can announce.
const LENGTH_MAX: usize = u32::MAX as usize;

/// Splits and joins frames. Frames are bytes, not text, and may be empty.
///
/// ```text
/// lines    ┌──────────────────────┬──────┐
///          │ body without 0x0A    │ 0x0A │  a 0x0D before the 0x0A belongs to the body
///          └──────────────────────┴──────┘
/// length   ┌──────────────┬──────────────┐
///          │ n: 4 bytes,  │ body:        │
///          │ big-endian   │ n bytes      │
///          └──────────────┴──────────────┘
/// ```
///
/// A frame counts only when it is complete: a last line without its `0x0A` may be truncated, so it
/// is an error at the end of the stream, not a message. After a read error, the start of the next
/// frame is unknown: close the connection.
#[derive(Debug)]
pub struct FrameCodec {
    frame_bytes_max: usize,
    codec: Codec,
}

#[derive(Debug)]
enum Codec {
    Lines(AnyDelimiterCodec),
    Length { encoder: LengthDelimitedCodec },
}

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than the limit.
    #[error("the frame is longer than {max} bytes")]
    TooLong {
        /// The longest frame, in bytes.
        max: usize,
    },
    /// The stream ended before the frame did.
    #[error("the connection ended in the middle of a frame")]
    Truncated,
    /// The rest of the frame arrived too slowly.
    #[error("the frame came more slowly than http.body_bytes_per_second_min")]
    TooSlow,
    /// A body with a line break would arrive as two frames.
    #[error("a body with a line break cannot travel as a line; use framing = \"length\"")]
    ContainsNewline,
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FrameCodec {
    /// A codec for one connection. `frame_bytes_max` limits the frames read, and so the memory
    /// that the peer can occupy. Only the framing limits the frames written.
    pub fn new(framing: Framing, frame_bytes_max: usize) -> FrameCodec {
        let codec = match framing {
            Framing::Lines => Codec::Lines(AnyDelimiterCodec::new_with_max_length(
                b"\n".to_vec(),
                b"\n".to_vec(),
                frame_bytes_max,
            )),
            Framing::Length => Codec::Length {
                encoder: LengthDelimitedCodec::builder()
                    .length_field_length(HEAD_BYTES)
                    .max_frame_length(LENGTH_MAX)
                    .new_codec(),
            },
        };
        FrameCodec { frame_bytes_max, codec }
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let max = self.frame_bytes_max;
        match &mut self.codec {
            Codec::Lines(lines) => lines.decode(buffer).map_err(|error| match error {
                AnyDelimiterCodecError::MaxChunkLengthExceeded => FrameError::TooLong { max },
                AnyDelimiterCodecError::Io(error) => FrameError::Io(error),
            }),
            Codec::Length { .. } => decode_length(buffer, max),
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        match self.decode(buffer)? {
            Some(frame) => Ok(Some(frame)),
            None if buffer.is_empty() => Ok(None),
            None => Err(FrameError::Truncated),
        }
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    /// Appends the frame; appends nothing on an error.
    fn encode(&mut self, body: Bytes, buffer: &mut BytesMut) -> Result<(), FrameError> {
        match &mut self.codec {
            // AnyDelimiterCodec can encode only text.
            Codec::Lines(_) => {
                if body.contains(&b'\n') {
                    return Err(FrameError::ContainsNewline);
                }
                buffer.reserve(body.len() + 1);
                buffer.extend_from_slice(&body);
                buffer.extend_from_slice(b"\n");
                Ok(())
            }
            Codec::Length { encoder, .. } => {
                encoder.encode(body, buffer).map_err(|error| too_long_or_io(error, LENGTH_MAX))
            }
        }
    }
}

/// Reads the next frame with a length before it. The library's decoder would reserve all the memory that a
/// head announces; here, memory grows only with the bytes that have arrived. The head stays in the buffer
/// until its frame is complete, so that leftover bytes at the end of the stream reveal a truncated frame.
fn decode_length(buffer: &mut BytesMut, max: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(head) = buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > max {
        return Err(FrameError::TooLong { max });
    }
    if buffer.len() - HEAD_BYTES < length {
        return Ok(None);
    }
    buffer.advance(HEAD_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// LengthDelimitedCodec reports a frame over the limit as an I/O error.
fn too_long_or_io(error: io::Error, max: usize) -> FrameError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => FrameError::TooLong { max },
        _ => FrameError::Io(error),
    }
}
