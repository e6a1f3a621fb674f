//! The trace that a message belongs to: the header `traceparent` of W3C Trace Context.

use sha2::{Digest, Sha256};

use super::hex::hex;

/// The name of the header, in lower case.
pub const TRACEPARENT: &str = "traceparent";

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace.
    pub trace_id: [u8; 16],
    /// The id of the span in the trace.
    pub span_id: [u8; 8],
    /// True if the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`. `None` if it is not valid: then a new trace begins.
    pub fn parse(text: &str) -> Option<TraceContext> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have further parts. Version 0 has none, and 255 is not a version.
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace_id, span_id, [flags]) = (bytes(trace)?, bytes(span)?, bytes::<1>(flags)?);
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        let is_sampled = flags & SAMPLED != 0;
        is_valid.then_some(TraceContext { trace_id, span_id, is_sampled })
    }

    /// Finds the context in these headers, whose names are in lower case.
    pub fn of(headers: &[(String, String)]) -> Option<TraceContext> {
        let (_, text) = headers.iter().find(|(name, _)| name == TRACEPARENT)?;
        TraceContext::parse(text)
    }

    /// The value of `traceparent` for this context.
    pub fn header(&self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", hex(&self.trace_id), hex(&self.span_id))
    }

    /// The trace's id, in hex.
    pub fn trace_id_text(&self) -> String {
        hex(&self.trace_id)
    }

    /// The span of this attempt at a stage. Each process computes the same id, so none of them has to store it.
    pub fn child(&self, stage: &str, attempt: u32) -> TraceContext {
        let mut digest = Sha256::new();
        digest.update(self.trace_id);
        digest.update(self.span_id);
        digest.update(attempt.to_be_bytes());
        digest.update(stage.as_bytes());
        let mut span_id = [0; 8];
        span_id.copy_from_slice(&digest.finalize()[..8]);
        TraceContext { span_id, ..*self }
    }
}

/// Reads lower-case hex digits: exactly as many as the array needs.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut found = [0; N];
    for (byte, pair) in found.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_read_is_written_again() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        assert!(context.is_sampled);
        assert_eq!(context.header(), EXAMPLE);
        assert_eq!(context.trace_id_text(), "0af7651916cd43dd8448eb211c80319c");
        let later = EXAMPLE.replace("00-", "cc-") + "-what-the-future-holds";
        assert_eq!(TraceContext::parse(&later), Some(context));
        let unsampled = EXAMPLE.replace("-01", "-02");
        assert!(!TraceContext::parse(&unsampled).unwrap().is_sampled);
        let headers = [("x-a", "1"), (TRACEPARENT, EXAMPLE)];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(TraceContext::of(&headers), Some(context));
    }

    #[test]
    fn what_is_not_valid_is_no_context() {
        for text in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_attempt_at_each_stage_has_one_span_in_the_same_trace() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        let child = context.child("deliver", 1);
        assert_eq!(child, context.child("deliver", 1));
        assert_eq!(child.trace_id, context.trace_id);
        for other in [context.child("deliver", 2), context.child("transform", 1), context] {
            assert_ne!(other.span_id, child.span_id);
        }
    }
}
