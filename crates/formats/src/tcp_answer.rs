//! The answers to frames: from ingest to a producer, and from a receiver to the sender.
//!
//! ```text
//! ingest → producer    OK                       the token of an AUTH frame is valid
//!                      OK <sequence>            stored in Redis
//!                      ERR <code> <sentence>    not stored; the code is one of HTTP's
//! receiver → sender    OK                       accepted (more words after OK are ignored)
//!                      RETRY [ms]               send again, not before this many milliseconds
//!                      REJECT <reason>          refused permanently
//! ```

use std::{borrow::Cow, fmt, time::Duration};

use super::code::Code;
use domain::{Sequence, wait_in_units};

use domain::excerpt::excerpt;

/// The longest answer that is accepted, in bytes.
pub const ANSWER_BYTES_MAX: usize = 4096;

/// Ingest's answer to a frame. `Display` writes the wire format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToProducer {
    /// The frame showed a valid token.
    Authenticated,
    /// Stored, with this sequence.
    Ok(Sequence),
    /// Not stored.
    Err {
        /// The stable code, as over HTTP.
        code: Code,
        /// What happened, as text.
        sentence: Cow<'static, str>,
    },
}

/// A receiver's answer to a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromReceiver {
    /// The receiver accepted the message.
    Ok,
    /// The receiver wants the message again, after this time if the answer has one.
    Retry(Option<Duration>),
    /// The receiver refuses the message, for this reason (already an [`excerpt`]).
    Reject(String),
}

/// The receiver's answer is not one of the three.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the receiver answered \"{text}\", which is not OK, RETRY [ms] or REJECT <reason>")]
pub struct UnknownAnswer {
    /// An [`excerpt`] of the receiver's answer.
    pub text: String,
}

impl fmt::Display for ToProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToProducer::Authenticated => f.write_str("OK"),
            ToProducer::Ok(sequence) => write!(f, "OK {sequence}"),
            ToProducer::Err { code, sentence } => {
                // A line break in the sentence would look like a second answer.
                write!(f, "ERR {code} {}", sentence.replace(char::is_control, " "))
            }
        }
    }
}

impl FromReceiver {
    /// Parses an answer. Ignores spaces and a `\r` around it.
    pub fn parse(frame: &[u8]) -> Result<FromReceiver, UnknownAnswer> {
        let unknown = || UnknownAnswer { text: excerpt(frame) };
        let frame = frame.trim_ascii();
        let end = frame.iter().position(u8::is_ascii_whitespace).unwrap_or(frame.len());
        let (word, rest) = frame.split_at(end);
        let rest = rest.trim_ascii();
        match word {
            b"OK" => Ok(FromReceiver::Ok),
            b"RETRY" if rest.is_empty() => Ok(FromReceiver::Retry(None)),
            b"RETRY" => {
                let text = std::str::from_utf8(rest).ok();
                let wait = text.and_then(|ms| wait_in_units(ms, Duration::from_millis(1)));
                Ok(FromReceiver::Retry(Some(wait.ok_or_else(unknown)?)))
            }
            b"REJECT" if rest.is_empty() => Ok(FromReceiver::Reject("no reason given".into())),
            b"REJECT" => Ok(FromReceiver::Reject(excerpt(rest))),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_producers_are_one_line_each() {
        assert_eq!(ToProducer::Ok(42).to_string(), "OK 42");
        let sentence = "no destination\nOK 43".into();
        let answer = ToProducer::Err { code: Code::UnknownDestination, sentence };
        assert_eq!(answer.to_string(), "ERR unknown_destination no destination OK 43");
    }

    #[test]
    fn receivers_may_add_spaces_and_carriage_returns() {
        for text in ["OK", "OK\r", " OK \r", "OK 42", "OK\tthanks"] {
            assert_eq!(FromReceiver::parse(text.as_bytes()), Ok(FromReceiver::Ok), "{text:?}");
        }
        let wait = |ms| FromReceiver::Retry(Some(Duration::from_millis(ms)));
        assert_eq!(FromReceiver::parse(b"RETRY"), Ok(FromReceiver::Retry(None)));
        assert_eq!(FromReceiver::parse(b"RETRY \r"), Ok(FromReceiver::Retry(None)));
        assert_eq!(FromReceiver::parse(b"RETRY 1500\r"), Ok(wait(1500)));
        let longest = Ok(FromReceiver::Retry(Some(Duration::MAX)));
        assert_eq!(FromReceiver::parse(b"RETRY 99999999999999999999999999"), longest);
        let reject = |reason: &str| Ok(FromReceiver::Reject(reason.into()));
        assert_eq!(FromReceiver::parse(b"REJECT no such account \r"), reject("no such account"));
        assert_eq!(FromReceiver::parse(b"REJECT"), reject("no reason given"));
    }

    #[test]
    fn anything_else_is_an_error_that_shows_it() {
        let bad: [&[u8]; 7] =
            [b"", b"ok", b"OKAY", b"RETRY soon", b"RETRY -1", b"ERR draining x", b"\xff\x00"];
        for text in bad {
            let error = FromReceiver::parse(text).unwrap_err();
            assert!(!error.text.chars().any(char::is_control), "{error}");
        }
        assert!(FromReceiver::parse(b"HTTP/1.1 400").unwrap_err().to_string().contains("HTTP/1.1"));
    }
}
