use super::*;
use proptest::prelude::*;

const BOTH: [Framing; 2] = [Framing::Lines, Framing::Length];

fn encode(framing: Framing, frames: &[Vec<u8>]) -> BytesMut {
    let mut codec = FrameCodec::new(framing, 0);
    let mut wire = BytesMut::new();
    for frame in frames {
        codec.encode(Bytes::copy_from_slice(frame), &mut wire).unwrap();
    }
    wire
}

/// The frames read from a connection that receives these pieces and then ends.
fn read<'a>(
    codec: &mut FrameCodec,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    buffer: &mut BytesMut,
) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(frame) = codec.decode(buffer)? {
            frames.push(frame.to_vec());
        }
    }
    while let Some(frame) = codec.decode_eof(buffer)? {
        frames.push(frame.to_vec());
    }
    Ok(frames)
}

fn read_all(framing: Framing, max: usize, wire: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
    read(&mut FrameCodec::new(framing, max), [wire], &mut BytesMut::new())
}

#[test]
fn frames_are_bytes_and_may_be_empty() {
    assert_eq!(&encode(Framing::Lines, &[b"a\r".to_vec(), vec![]])[..], b"a\r\n\n");
    assert_eq!(&encode(Framing::Length, &[b"\n".to_vec(), vec![]])[..], b"\0\0\0\x01\n\0\0\0\0");
    for framing in BOTH {
        let frames = vec![vec![0xff, 0, b'\r'], vec![], vec![b'x']];
        assert_eq!(read_all(framing, 3, &encode(framing, &frames)).unwrap(), frames);
    }
}

#[test]
fn the_longest_frame_passes_and_one_byte_more_does_not() {
    for framing in BOTH {
        let wire = encode(framing, &[vec![b'x'; 8]]);
        assert_eq!(read_all(framing, 8, &wire).unwrap().len(), 1);
        let error = read_all(framing, 7, &wire).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { max: 7 }), "{error}");
    }
    // Memory grows only with the bytes received, not with the announced length.
    let mut buffer = BytesMut::new();
    let mut codec = FrameCodec::new(Framing::Length, 256 << 20);
    let announced = [0x0f, 0xff, 0xff, 0xff, b'x'];
    let error = read(&mut codec, [&announced[..]], &mut buffer).unwrap_err();
    assert!(matches!(error, FrameError::Truncated) && buffer.capacity() < 1 << 10, "{error}");
    // The length alone is enough for the error: the codec neither waits for bytes nor reserves memory.
    let mut buffer = BytesMut::new();
    let mut codec = FrameCodec::new(Framing::Length, 1 << 20);
    let error = read(&mut codec, [&[0xff; 4][..]], &mut buffer).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { max: 0x10_0000 }), "{error}");
    assert!(buffer.capacity() < 1024);
}

#[test]
fn a_frame_cut_short_is_an_error_and_not_a_message() {
    for framing in BOTH {
        let wire = encode(framing, &[b"abc".to_vec()]);
        for end in 1..wire.len() {
            let error = read_all(framing, 10, &wire[..end]).unwrap_err();
            assert!(matches!(error, FrameError::Truncated), "{framing:?} {end}: {error}");
        }
        assert!(read_all(framing, 10, b"").unwrap().is_empty());
    }
}

#[test]
fn a_line_with_a_line_break_cannot_be_written() {
    let mut wire = BytesMut::from("before");
    let mut codec = FrameCodec::new(Framing::Lines, 10);
    let error = codec.encode(Bytes::from_static(b"a\nb"), &mut wire).unwrap_err();
    assert!(error.to_string().contains(r#"use framing = "length""#));
    assert_eq!(&wire[..], b"before");
}

/// Splits `wire` at these places, each in 256ths of its length.
fn cut(wire: &[u8], mut places: Vec<u8>) -> Vec<&[u8]> {
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for position in places {
        let end = wire.len() * usize::from(position) / 256;
        pieces.push(&wire[start..end]);
        start = end;
    }
    pieces.push(&wire[start..]);
    pieces
}

proptest! {
    #[test]
    fn frames_survive_any_cut(
        frames: Vec<Vec<u8>>,
        places: Vec<u8>,
        is_lines: bool,
    ) {
        let framing = if is_lines { Framing::Lines } else { Framing::Length };
        let mut frames = frames;
        if is_lines {
            frames.iter_mut().for_each(|frame| frame.retain(|&b| b != b'\n'));
        }
        let wire = encode(framing, &frames);
        let mut codec = FrameCodec::new(framing, 1024);
        let read = read(&mut codec, cut(&wire, places), &mut BytesMut::new());
        prop_assert_eq!(read.unwrap(), frames);
    }

    #[test]
    fn garbage_never_panics_nor_reserves_more_than_the_limit(
        // With leading zeros, some announced lengths are within the limit.
        zeros in 0usize..4,
        garbage: Vec<u8>,
        places: Vec<u8>,
        max in 0usize..2000,
    ) {
        let wire = [vec![0; zeros], garbage].concat();
        for framing in BOTH {
            let mut buffer = BytesMut::new();
            let _ = read(&mut FrameCodec::new(framing, max), cut(&wire, places.clone()), &mut buffer);
            // The buffer already holds the input; the codec adds at most one frame.
            let bound = 2 * (wire.len() + max + HEAD_BYTES) + 64;
            prop_assert!(buffer.capacity() <= bound, "{} > {bound}", buffer.capacity());
        }
        let _ = crate::tcp_answer::FromReceiver::parse(&wire);
    }
}
