//! Sends a message as an HTTP request, in the same form to transforms and receivers.
//!
//! ```text
//! POST <url>
//! reseq-id, reseq-destination, reseq-sequence, reseq-previous, reseq-epoch, reseq-attempt
//! reseq-key           if the message has an ordering key
//! reseq-origin        if it was redriven or replayed: the original's <destination>/<epoch>/<sequence>
//! content-type        the content type of the body
//! x-…, webhook-…, …   the headers of the message that travel (`forward_headers`)
//! authorization, …    the static headers of the definition; they override headers of the message
//! webhook-id, webhook-timestamp, webhook-signature, reseq-signature
//!                     if the destination signs (`signatures/sign.rs`)
//!
//! <body>
//! ```
//!
//! A batch has reseq-destination, reseq-sequence (of its first message), reseq-last-sequence,
//! reseq-batch (their number), reseq-epoch, reseq-attempt, and reseq-key with ordering by key. The
//! messages' own headers are in its envelopes (`envelope.rs`).
//!
//! Ids and keys come from producers and may contain any printable character, but header values may
//! not. So `reseq-id` and `reseq-key` percent-encode spaces, `%` and non-ASCII characters as UTF-8.
//! The receiver gets the original by percent-decoding (`decodeURIComponent`).

mod response;

use std::{borrow::Borrow, error::Error, time::Duration};

use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::{
    RequestBuilder, Response, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};

pub use response::{
    content_encoding, drain, ends_with_connection, refusal, refusal_in_full, retry_after,
};

use super::{
    http_client::{Clients, RequestError},
    outgoing::{OutgoingError, RefusedAddress},
};
use domain::{
    DestinationName, ErrorKind, Ordering, Stamped, TraceContext,
    destination::{Headers, SIGNATURE_PREFIX, is_reserved},
    trace::TRACEPARENT,
};
use formats::{envelope::origin_text, signatures::Signer};

/// Characters to percent-encode in a header value, besides non-ASCII characters: the space, because spaces at the ends
/// get lost, and `%`, so that decoding is unambiguous.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// The characters to encode in `webhook-id`. Full stops separate the parts of the signed text, so the id must have
/// none.
const ENCODED_ID: &AsciiSet = &ENCODED.add(b'.');

/// Headers that frame the request. Values from the definition would break it.
const FRAMING: [HeaderName; 3] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];

/// The limits that hyper sets.
const HEAD_TOO_LONG: &str =
    "the answer has more headers than Reseq reads: at most 100, and 408 KiB of them";

/// A URL for POST requests, with the parts that all its requests share.
///
/// Not `Debug`, because the URL's query may contain a secret.
pub struct Endpoint {
    clients: Clients,
    /// `None` if the definition was not validated.
    url: Option<Url>,
    headers: HeaderMap,
    timeout: Duration,
    signer: Option<Signer>,
}

/// Why there is no complete answer. The text never contains a header or a part of the URL, which
/// may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NoAnswer {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What happened, as text.
    pub reason: String,
    /// True if Reseq may not connect to the address. Nothing was sent.
    pub is_refused_address: bool,
}

/// Why the body of an answer is missing.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body is longer than the limit.
    #[error("the answer is longer than {max} bytes")]
    TooLong {
        /// The longest body, in bytes.
        max: usize,
    },
    /// The body is incomplete: a time-out or a broken connection.
    #[error("{0}")]
    Broken(NoAnswer),
}

impl NoAnswer {
    /// The error for an empty batch.
    pub fn nothing_to_send() -> NoAnswer {
        NoAnswer::unsendable("there is nothing to send")
    }

    fn unsendable(reason: &str) -> NoAnswer {
        NoAnswer {
            kind: ErrorKind::Unsendable,
            reason: reason.to_owned(),
            is_refused_address: false,
        }
    }

    fn unresolved(error: &OutgoingError) -> NoAnswer {
        let reason = format!("no connection: {error}");
        NoAnswer { kind: ErrorKind::Connection, reason, is_refused_address: false }
    }

    fn refused(address: &RefusedAddress) -> NoAnswer {
        let refused = OutgoingError::Refused(*address);
        NoAnswer { is_refused_address: true, ..NoAnswer::unresolved(&refused) }
    }
}

impl Endpoint {
    /// `timeout_ms` limits one whole attempt: to connect, send, and read the answer. Waiting
    /// until the destination may use one more connection does not count.
    pub fn new(clients: Clients, url: &str, headers: &Headers, timeout_ms: u64) -> Endpoint {
        let parse = |(name, value): (&String, &String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            value.set_sensitive(true);
            (!FRAMING.contains(&name)).then_some((name, value))
        };
        Endpoint {
            clients,
            url: Url::parse(url).ok(),
            headers: headers.iter().filter_map(parse).collect(),
            timeout: Duration::from_millis(timeout_ms),
            signer: None,
        }
    }

    /// Signs each request.
    pub fn signed_by(self, signer: Option<Signer>) -> Endpoint {
        Endpoint { signer, ..self }
    }

    /// POSTs the message; returns the head of the answer, or why there is none.
    /// `trace`: the span of the request, if the trace of the message is recorded here.
    pub async fn send(
        &self,
        message: &Stamped,
        attempt: u32,
        trace: Option<TraceContext>,
    ) -> Result<Response, NoAnswer> {
        let mut headers = self.request_headers(message, attempt);
        insert_trace(&mut headers, trace);
        let body = message.message.body.bytes.clone();
        if let Some(signer) = &self.signer {
            signer.sign(&mut headers, &signature_id(&message.message.id), &body);
        }
        self.request(&message.destination, headers, body).await
    }

    /// POSTs several messages, in order, as one body of this type.
    pub async fn send_batch(
        &self,
        messages: &[impl Borrow<Stamped>],
        ordering: Ordering,
        attempt: u32,
        trace: Option<TraceContext>,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Response, NoAnswer> {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
            return Err(NoAnswer::nothing_to_send());
        };
        let (first, last) = (first.borrow(), last.borrow());
        let by_key = ordering == Ordering::Key;
        let mut headers = self.batch_headers(first, last, messages.len(), by_key, attempt);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        insert_trace(&mut headers, trace);
        if let Some(signer) = &self.signer {
            let (destination, at) = (&first.destination, first.position);
            let last = last.position.sequence;
            let mut id = format!("{destination}/{}/{}-{last}", at.epoch, at.sequence);
            // Without order, another batch may have other messages between these two.
            if ordering == Ordering::None && messages.len() > 1 {
                let sequences = messages.iter().map(|one| one.borrow().position.sequence);
                let digest = sequences.fold(0xcbf2_9ce4_8422_2325, |digest: u64, sequence| {
                    (digest ^ sequence).wrapping_mul(0x0100_0000_01b3)
                });
                id += &format!("-{digest:x}");
            }
            signer.sign(&mut headers, &signature_id(&id), &body);
        }
        self.request(&first.destination, headers, body).await
    }

    fn batch_headers(
        &self,
        first: &Stamped,
        last: &Stamped,
        count: usize,
        by_key: bool,
        attempt: u32,
    ) -> HeaderMap {
        let mut headers = self.headers.clone();
        insert_place(&mut headers, first, attempt);
        insert(&mut headers, "reseq-last-sequence", &last.position.sequence.to_string());
        insert(&mut headers, "reseq-batch", &count.to_string());
        if let Some(key) = first.message.key.as_ref().filter(|_| by_key) {
            insert(&mut headers, "reseq-key", &encoded(key));
        }
        headers
    }

    async fn request(
        &self,
        destination: &DestinationName,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, NoAnswer> {
        // The HTTP client omits this header for an empty body, and some servers then answer 411.
        if body.is_empty() {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let Some(url) = &self.url else {
            return Err(NoAnswer::unsendable("the url of the definition is not one"));
        };
        let build =
            |request: RequestBuilder| request.headers(headers).body(body).timeout(self.timeout);
        self.clients.post(destination, url, build).await.map_err(|error| match error {
            RequestError::Refused(address) => NoAnswer::refused(&address),
            RequestError::Unresolved(error) => NoAnswer::unresolved(&error),
            RequestError::Failed(error) => self.no_answer(error),
        })
    }

    /// Reads the whole body of an answer, up to `bytes_max`.
    pub async fn read(&self, mut answer: Response, bytes_max: usize) -> Result<Bytes, BodyError> {
        let too_long = BodyError::TooLong { max: bytes_max };
        let announced = answer.content_length().unwrap_or(0);
        if announced > bytes_max as u64 {
            return Err(too_long);
        }
        let mut body = BytesMut::with_capacity(announced as usize);
        while let Some(chunk) =
            answer.chunk().await.map_err(|e| BodyError::Broken(self.no_answer(e)))?
        {
            if body.len() + chunk.len() > bytes_max {
                return Err(too_long);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn request_headers(&self, message: &Stamped, attempt: u32) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(16);
        // A header of a message must not look like a header of Reseq. Ingest forwards no reserved
        // headers; this is a second check.
        let is_replaced = |name: &str| self.signer.is_some() && name.starts_with(SIGNATURE_PREFIX);
        let own = message.message.headers.iter();
        let own = own.filter(|(name, _)| !is_reserved(name) && !is_replaced(name));
        for (name, value) in own {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_bytes(value.as_bytes());
            if let (Ok(name), Ok(value)) = (name, value) {
                // Fails only beyond 2^15 headers; ingest accepts far fewer.
                let _ = headers.try_append(name, value);
            }
        }
        let content_type = message.message.body.content_type.as_bytes();
        if let Ok(value) = HeaderValue::from_bytes(content_type)
            && !value.is_empty()
        {
            headers.insert(header::CONTENT_TYPE, value);
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        insert_own(&mut headers, message, attempt);
        headers
    }

    /// Describes the error with its innermost cause, because the outer causes repeat the URL.
    fn no_answer(&self, error: reqwest::Error) -> NoAnswer {
        let error = error.without_url();
        let mut is_head_too_long = false;
        let mut cause: &dyn Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
            if let Some(OutgoingError::Refused(address)) = cause.downcast_ref() {
                return NoAnswer::refused(address);
            }
            is_head_too_long |= cause.downcast_ref().is_some_and(hyper::Error::is_parse_too_large);
        }
        let (kind, reason) = if is_head_too_long {
            (ErrorKind::Connection, HEAD_TOO_LONG.to_owned())
        } else if error.is_connect() {
            (ErrorKind::Connection, format!("no connection: {}", tls::explained(cause.to_string())))
        } else if error.is_timeout() {
            let timeout_ms = self.timeout.as_millis();
            (ErrorKind::Timeout, format!("timed out after {timeout_ms} ms"))
        } else if error.is_builder() {
            (ErrorKind::Unsendable, format!("the request could not be made: {cause}"))
        } else {
            (ErrorKind::Connection, format!("no whole answer: {cause}"))
        };
        NoAnswer { kind, reason, is_refused_address: false }
    }
}

/// Sets Reseq's own headers, replacing others of these names.
fn insert_own(headers: &mut HeaderMap, message: &Stamped, attempt: u32) {
    insert_place(headers, message, attempt);
    insert(headers, "reseq-id", &encoded(&message.message.id));
    if let Some(previous) = message.previous {
        insert(headers, "reseq-previous", &previous.to_string());
    }
    if let Some(key) = &message.message.key {
        insert(headers, "reseq-key", &encoded(key));
    }
    if let Some(origin) = &message.origin {
        insert(headers, "reseq-origin", &origin_text(origin));
    }
}

fn insert_trace(headers: &mut HeaderMap, trace: Option<TraceContext>) {
    if let Some(trace) = trace {
        insert(headers, TRACEPARENT, &trace.header());
    }
}

fn insert_place(headers: &mut HeaderMap, message: &Stamped, attempt: u32) {
    insert(headers, "reseq-destination", message.destination.as_str());
    insert(headers, "reseq-sequence", &message.position.sequence.to_string());
    insert(headers, "reseq-epoch", &message.position.epoch.to_string());
    insert(headers, "reseq-attempt", &attempt.to_string());
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // Encoded texts, names and numbers are always valid values.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// An id as `webhook-id`: without full stops, which separate the parts of the signed text.
fn signature_id(id: &str) -> String {
    utf8_percent_encode(id, ENCODED_ID).to_string()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::Outgoing;
    use domain::destination::{Secrets, Sign};
    use formats::delivery_headers::DELIVERY_HEADERS;
    use tls::Connector;

    fn clients() -> Clients {
        Clients::new(Outgoing::new(Vec::new()), Connector::of_system().unwrap()).unwrap()
    }

    #[test]
    fn every_header_of_a_delivery_is_listed() {
        use domain::{Body, Message, Origin, Position};

        let body = Body { content_type: "text/plain".into(), bytes: Bytes::new() };
        let (id, key) = ("i".into(), Some("k".into()));
        let message = Message { id, key, headers: Vec::new(), body, received_ms: 0 };
        let position = Position { epoch: 1, sequence: 1 };
        let destination: domain::DestinationName = "erp".parse().unwrap();
        let mut stamped = Stamped::new(destination.clone(), position, 0, message);
        stamped.origin = Some(Origin { destination, position });
        let endpoint = Endpoint::new(clients(), "http://h/", &Headers::default(), 1);
        let mut sent = endpoint.request_headers(&stamped, 1);
        sent.extend(endpoint.batch_headers(&stamped, &stamped, 2, true, 1));
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let sign = Sign { secrets: Secrets::new([secret]) };
        Signer::new(&sign, || 0).sign(&mut sent, "i", b"");
        let sent = sent.keys().map(HeaderName::as_str).filter(|name| name.starts_with("reseq-"));
        let sent: std::collections::BTreeSet<&str> = sent.collect();
        assert_eq!(sent, DELIVERY_HEADERS.into());
    }

    #[test]
    fn message_header_never_poses_as_one_of_reseq_or_definition() {
        use domain::{Body, Message, Position};

        let names = [
            "content-type",
            "content-length",
            "host",
            "idempotency-key",
            "reseq-attempt",
            "reseq-key",
            "reseq-origin",
            "transfer-encoding",
            "authorization",
            "x-tenant",
            "webhook-id",
        ];
        // Without content type and key, Reseq itself sets neither header.
        let body = Body { content_type: String::new(), bytes: Bytes::new() };
        let headers = names.map(|name| (name.to_owned(), "forged".to_owned())).into();
        let message = Message { id: "i".into(), key: None, headers, body, received_ms: 0 };
        let position = Position { epoch: 1, sequence: 1 };
        let stamped = Stamped::new("erp".parse().unwrap(), position, None, message);
        let of_definition = [("authorization".to_owned(), "Bearer x".to_owned())].into();
        let endpoint = Endpoint::new(clients(), "http://h/", &of_definition, 1);
        let sent = endpoint.request_headers(&stamped, 1);
        let forged = sent.iter().filter(|(_, value)| *value == "forged");
        let forged: Vec<&str> = forged.map(|(name, _)| name.as_str()).collect();
        assert_eq!(forged, ["x-tenant", "webhook-id"]);
        assert_eq!(sent["authorization"], "Bearer x");

        // If the destination signs, Reseq does not forward a signature that arrived with the message.
        let sign = Sign { secrets: Secrets::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]) };
        let endpoint = endpoint.signed_by(Some(Signer::new(&sign, || 0)));
        assert!(!endpoint.request_headers(&stamped, 1).contains_key("webhook-id"));
        assert_eq!(signature_id("a.b c\u{f6}%"), "a%2Eb%20c%C3%B6%25");
    }

    #[test]
    fn static_headers_that_cannot_be_are_left_out() {
        let pairs = [
            ("authorization", "Bearer x"),
            ("a b", "1"),
            ("x-a", "1\r\n"),
            ("Content-Length", "7"),
        ];
        let headers = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let endpoint = Endpoint::new(clients(), "http://h/", &headers, 1);
        assert_eq!(endpoint.headers.len(), 1);
        assert!(endpoint.headers[header::AUTHORIZATION].is_sensitive());
    }
}
