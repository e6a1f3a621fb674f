//! Collects frames that are available together.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};

use super::Frames;
use formats::FrameError;

/// The most bytes of a chunk (a chunk has at least one frame).
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// How a stream of frames continues.
pub(super) enum End {
    No,
    Closed,
    Bad(FrameError),
}

/// The frames that are already available, starting with `first`, and whether more may follow.
pub(super) fn chunk(
    first: Option<Result<Bytes, FrameError>>,
    stream: &mut Frames,
    count_max: usize,
) -> (Vec<Bytes>, End) {
    let (mut frames, mut bytes, mut next) = (Vec::new(), 0, Some(first));
    while let Some(read) = next {
        match read {
            None => return (frames, End::Closed),
            Some(Err(error)) => return (frames, End::Bad(error)),
            Some(Ok(frame)) => {
                bytes += frame.len();
                frames.push(frame);
            }
        }
        let is_full = frames.len() >= count_max || bytes >= CHUNK_BYTES_MAX;
        next = if is_full { None } else { stream.next().now_or_never() };
    }
    (frames, End::No)
}
