//! Detects, over HTTP/2, a head of a request that has begun and not ended. The HTTP library would wait for the rest
//! without a time limit.

/// The length of the preface with which a client begins a connection.
const PREFACE_BYTES: usize = 24;
/// The length of a frame without its payload.
const FRAME_BYTES: usize = 9;
/// Types of frames (RFC 9113, 6), and the flag of the last frame of a head.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Follows the frames of one connection.
#[derive(Debug)]
pub(super) struct Heads {
    /// The beginning of a frame, without its payload.
    begun: Vec<u8>,
    /// The remaining bytes of a payload, or of the preface.
    left: usize,
    /// True if the payload is part of a body. [`crate::min_rate`] checks the speed of bodies.
    is_body: bool,
    /// True if a head continues in the next frame.
    goes_on: bool,
}

impl Default for Heads {
    fn default() -> Heads {
        Heads { begun: Vec::new(), left: PREFACE_BYTES, is_body: false, goes_on: false }
    }
}

impl Heads {
    /// Continues with these bytes, after the bytes of earlier calls. Returns whether all frames
    /// and heads were complete at some point within these bytes, and whether they are at the end.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> (bool, bool) {
        let mut was_whole = self.is_whole();
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
            } else {
                let taken = (FRAME_BYTES - self.begun.len()).min(bytes.len());
                self.begun.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                if let [high, middle, low, kind, flags, ..] = self.begun[..]
                    && self.begun.len() == FRAME_BYTES
                {
                    self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                    self.is_body = kind == DATA;
                    if matches!(kind, HEADERS | CONTINUATION) {
                        self.goes_on = flags & END_HEADERS == 0;
                    }
                    self.begun.clear();
                }
            }
            was_whole |= self.is_whole();
        }
        (was_whole, self.is_whole())
    }

    fn is_whole(&self) -> bool {
        self.begun.is_empty() && (self.left == 0 || self.is_body) && !self.goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_BYTES + usize::from(length), b'x');
        frame
    }

    #[test]
    fn a_head_is_whole_after_its_last_frame_however_it_arrives() {
        let parts = [
            (vec![b'P'; PREFACE_BYTES], true),
            (frame(4, 0, 6), true),
            (frame(HEADERS, 0, 3), false),
            (frame(CONTINUATION, 0, 0), false),
            (frame(CONTINUATION, END_HEADERS, 2), true),
            (frame(DATA, 0, 200), true),
            (frame(HEADERS, END_HEADERS, 5), true),
        ];
        let (mut whole, mut by_byte) = (Heads::default(), Heads::default());
        for (bytes, is_whole) in &parts {
            assert_eq!(whole.follow(bytes).1, *is_whole, "{bytes:?}");
            let ends: Vec<bool> = bytes.chunks(1).map(|byte| by_byte.follow(byte).1).collect();
            assert_eq!(ends.last(), Some(is_whole), "{bytes:?}");
        }
        // An incomplete body does not count, an incomplete frame of a head does.
        assert_eq!(whole.follow(&frame(DATA, 0, 200)[..50]), (true, true));
        assert_eq!(by_byte.follow(&frame(HEADERS, END_HEADERS, 5)[..12]), (true, false));
        assert_eq!(by_byte.follow(b"x"), (false, false));
        // The first head has ended, and another one has begun.
        let both = [b"x".to_vec(), frame(HEADERS, 0, 1)].concat();
        assert_eq!(by_byte.follow(&both), (true, false));
    }
}
