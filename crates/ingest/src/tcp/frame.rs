//! Parses a frame into a message.

use bytes::Bytes;

use crate::json::{ItemError, Limits, parse_message};
use domain::{Arrival, Body, Envelope, Message, message::HEADERS_BYTES_MAX};
use store::server_clock_ms;

/// The most bytes of an envelope around the body: the keys, and headers of which each byte is an escape of six bytes.
const AROUND_BYTES_MAX: usize = 6 * HEADERS_BYTES_MAX + (16 << 10);

/// The longest frame with a body of this length, in bytes.
pub fn bytes_max(envelope: Envelope, body_bytes_max: usize) -> usize {
    match envelope {
        Envelope::None => body_bytes_max,
        // Base64 uses four characters for three bytes.
        Envelope::Json => body_bytes_max / 3 * 4 + 4 + AROUND_BYTES_MAX,
    }
}

/// Parses a frame.
pub fn read(frame: Bytes, envelope: Envelope, limits: Limits) -> Result<Arrival, ItemError> {
    let now_ms = server_clock_ms();
    match envelope {
        Envelope::None => Ok(plain(frame, now_ms)),
        Envelope::Json => parse_message(&frame, now_ms, limits),
    }
}

fn plain(body: Bytes, received_ms: u64) -> Arrival {
    Arrival::of(Message {
        id: uuid::Uuid::now_v7().to_string(),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "application/octet-stream".into(), bytes: body },
        received_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES_MAX: usize = 100;

    fn read_envelope(text: &str) -> Result<Arrival, ItemError> {
        let limits = Limits { body_bytes_max: BODY_BYTES_MAX, json_depth_max: 8 };
        read(Bytes::from(text.to_owned()), Envelope::Json, limits)
    }

    #[test]
    fn an_envelope_says_all_that_an_object_over_http_says() {
        let text = r#"{"key":"acct-7","idempotency_key":"k","delay_ms":5,"id":"order-7",
                       "headers":{"X-Tenant":"7"},"body":{"a": 1.0}}"#;
        let arrival = read_envelope(text).unwrap();
        assert_eq!(arrival.idempotency_key.as_deref(), Some("k"));
        assert!(arrival.due.is_some());
        let Message { id, key, headers, body, .. } = arrival.message;
        assert_eq!((id.as_str(), key.as_deref()), ("order-7", Some("acct-7")));
        assert_eq!(headers, [("x-tenant".to_owned(), "7".to_owned())]);
        assert_eq!(body.content_type, "application/json");
        assert_eq!(body.bytes, "{\"a\": 1.0}");
    }

    #[test]
    fn what_is_no_message_is_told_why() {
        for (text, code, what) in [
            ("{", "invalid_json", "EOF"),
            ("", "invalid_json", "EOF"),
            ("{}", "invalid_field", "body: missing"),
            (
                r#"{"body":1,"destinations":["erp"]}"#,
                "invalid_field",
                "destinations: this listener",
            ),
            (r#"{"body":1,"topic":"t"}"#, "invalid_field", "topic: this listener"),
            (r#"{"body":[[[[[[[[[0]]]]]]]]]}"#, "invalid_field", "deeper than 8"),
            (r#"{"body":1,"kye":"a"}"#, "invalid_field", "kye"),
            (&format!("{{\"body\":\"{}\"}}", "x".repeat(99)), "body_too_large", "100 bytes"),
        ] {
            let ItemError { code: told, detail } = read_envelope(text).unwrap_err();
            assert!(told.as_str() == code && detail.contains(what), "{text}: {told} {detail}");
        }
    }

    #[test]
    fn the_longest_message_fits_into_a_frame() {
        use base64::{Engine, engine::general_purpose::STANDARD};

        let body = STANDARD.encode([b'x'; BODY_BYTES_MAX]);
        let header = "\\u0001".repeat(HEADERS_BYTES_MAX);
        let key = "\\u0001".repeat(domain::message::KEY_BYTES_MAX);
        let text = format!(
            r#"{{"body_base64":"{body}","headers":{{"x-a":"{header}"}},"key":"{key}","id":"{key}",
                "idempotency_key":"{key}","content_type":"text/plain"}}"#
        );
        assert!(text.len() <= bytes_max(Envelope::Json, BODY_BYTES_MAX));
    }
}
