//! TCP: the framings, and the answers of receivers.

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use domain::Framing;
use formats::{
    FrameCodec, FrameError,
    batch_answer::{Accepted, accepted},
    tcp_answer::FromReceiver,
};

/// Input: a byte for the framing, a byte for the longest frame, a byte for the size of the
/// pieces, and the stream.
pub fn frames(input: &[u8]) {
    let Some((&[framing, max, piece], stream)) = input.split_first_chunk() else { return };
    let framing = if framing % 2 == 0 { Framing::Lines } else { Framing::Length };
    let frame_bytes_max = 1 + usize::from(max);
    let (whole, error) = decoded(framing, frame_bytes_max, stream, stream.len().max(1));
    let in_pieces = decoded(framing, frame_bytes_max, stream, 1 + usize::from(piece % 16));
    assert_eq!((&whole, &error), (&in_pieces.0, &in_pieces.1));

    let mut buffer = BytesMut::new();
    for frame in &whole {
        assert!(frame.len() <= frame_bytes_max);
        FrameCodec::new(framing, 0).encode(frame.clone(), &mut buffer).unwrap();
        answers(frame);
    }
    // Encoded again, the frames decode to the same frames.
    assert_eq!(decoded(framing, frame_bytes_max, &buffer, usize::MAX), (whole, None));
    assert!(error.is_some() || stream == &buffer[..], "bytes are missing, or were added");
}

/// The frames of a stream that arrives in pieces, and the error that ends it.
fn decoded(
    framing: Framing,
    frame_bytes_max: usize,
    stream: &[u8],
    piece_bytes: usize,
) -> (Vec<Bytes>, Option<String>) {
    let mut codec = FrameCodec::new(framing, frame_bytes_max);
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    let mut read = |codec: &mut FrameCodec, buffer: &mut BytesMut, is_end: bool| loop {
        let frame = if is_end { codec.decode_eof(buffer) } else { codec.decode(buffer) };
        match frame {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    let mut outcome: Result<(), FrameError> = Ok(());
    for piece in stream.chunks(piece_bytes) {
        buffer.extend_from_slice(piece);
        outcome = outcome.and_then(|()| read(&mut codec, &mut buffer, false));
    }
    outcome = outcome.and_then(|()| read(&mut codec, &mut buffer, true));
    (frames, outcome.err().map(|error| error.to_string()))
}

/// A frame as the answer of a receiver, and as its answer to a batch of seven.
fn answers(frame: &[u8]) {
    const COUNT: usize = 7;
    match FromReceiver::parse(frame) {
        Ok(FromReceiver::Reject(reason)) => assert_shown(&reason),
        Err(error) => assert_shown(&error.text),
        Ok(FromReceiver::Ok | FromReceiver::Retry(_)) => {}
    }
    match accepted(frame, COUNT) {
        Accepted::First(count) => assert!(count <= COUNT),
        Accepted::Unclear(problem) => assert_shown(&problem),
    }
}

/// Checks that a text for operators is short, and cannot look like another line of the log.
fn assert_shown(text: &str) {
    assert!(text.chars().count() < 1_000 && !text.chars().any(char::is_control), "{text:?}");
}
